"""What tests and benchmarks of the takeover start from: one Kyma of the recording, and named differences to it.

A difference is a case that no recording shows. It changes recorded objects, in fields that it names.
"""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from typing import Any

from kyma_oci.packing import context_of, resource_of
from lifecycle_manager_api import names
from tests.takeover_from_go import modules
from tests.takeover_from_go.modules import GoModule
from tests.takeover_from_go.recordings import FIRST, OF_THE_SERVER, REGISTRY, recorded, the, the_lease

Document = dict[str, Any]
KYMA, MODULE = FIRST, modules.MONITORING
MANIFEST: str = the("kcp", "Manifest", f"{KYMA}-{MODULE.name}")["metadata"]["name"]
SECOND = the("kcp", "Kyma", "b7d04be1")["metadata"]["name"]
CLUSTERS = ("kcp", "skr-1")
"""The control plane, and the cluster of the Kyma."""


@dataclass(frozen=True, kw_only=True)
class Difference:
    """How objects of a kind differ from the recorded ones, and why no recording shows it.

    `name` is in the names of these objects, `fields` are those that differ, with what is below them. With `adds` the
    changed object is there beside the recorded one.
    """

    why: str
    cluster: str
    kind: str
    name: str
    fields: frozenset[str]
    change: Callable[[Document], Document]
    adds: bool = False

    def concerns(self, cluster: str, document: Document) -> bool:
        """Tell whether this changes an object of a cluster."""
        return (cluster, document["kind"]) == (self.cluster, self.kind) and self.name in document["metadata"]["name"]


def stopped_lease(**spec: str) -> Document:
    """Return the Lease of a Go version that was stopped; a test says who has it, and since when."""
    recorded = the_lease()
    metadata = {key: each for key, each in recorded["metadata"].items() if key not in OF_THE_SERVER}
    released = {key: each for key, each in recorded["spec"].items() if key not in {"holderIdentity", "renewTime"}}
    return {**recorded, "metadata": metadata, "spec": {**released, **spec}}


def start(
    cluster: str, *differences: Difference, chosen: Collection[GoModule] = modules.INSTALLED, kyma: str = KYMA
) -> list[Document]:
    """Return the objects of a cluster with some of the modules, and none of other Kymas."""
    left = {each.name for each in modules.INSTALLED} - {each.name for each in chosen}
    elsewhere = {*left, *({KYMA, SECOND} - {kyma})}
    found: list[Document] = []
    for each in recorded(cluster):
        if not any(name in each["metadata"]["name"] for name in elsewhere):
            found += _changed(cluster, _without_modules(each, left), differences)
    return found


def _changed(cluster: str, document: Document, differences: Collection[Difference]) -> Iterator[Document]:
    for each in differences:
        if each.concerns(cluster, document):
            changed = each.change(document)
            if each.adds:
                yield changed
            else:
                document = changed
    yield document


def _without_modules(document: Document, left: Collection[str]) -> Document:
    """Return an object, a Kyma without these modules in its lists and in the records of who wrote them."""
    if document["kind"] != "Kyma":
        return document
    found = {**document, "metadata": {**document["metadata"]}}
    for part in ("spec", "status"):
        listed = document.get(part, {}).get("modules", ())
        found[part] = {**document[part], "modules": [each for each in listed if each["name"] not in left]}
    keys = {f'k:{{"name":"{each}"}}' for each in left}
    found["metadata"]["managedFields"] = _without_keys(document["metadata"]["managedFields"], keys)
    return found


def _without_keys(value: Any, keys: Collection[str]) -> Any:
    if isinstance(value, list):
        return [_without_keys(each, keys) for each in value]
    if isinstance(value, dict):
        return {key: _without_keys(each, keys) for key, each in value.items() if key not in keys}
    return value


def _in_metadata(document: Document, **fields: Any) -> Document:
    return {**document, "metadata": {**document["metadata"], **fields}}


def _with_copied_keys(value: Any, key: str, copy: str) -> Any:
    """Return the records of who wrote what, in which a key has another one beside it."""
    if isinstance(value, list):
        return [_with_copied_keys(each, key, copy) for each in value]
    if isinstance(value, dict):
        copied = {copy: value[key]} if key in value else {}
        return {**{name: _with_copied_keys(each, key, copy) for name, each in value.items()}, **copied}
    return value


def _with_purge_finalizer(kyma: Document) -> Document:
    metadata, purge = kyma["metadata"], f"{names.GROUP}/purge-finalizer"
    keys = (f'v:"{names.KYMA_FINALIZER}"', f'v:"{purge}"')
    managed = _with_copied_keys(metadata["managedFields"], *keys)
    return _in_metadata(kyma, finalizers=[*metadata["finalizers"], purge], managedFields=managed)


PURGE_FINALIZER = Difference(
    why="only with --enable-purge-finalizer, and in versions before 1.21",
    cluster="kcp",
    kind="Kyma",
    name=KYMA,
    fields=frozenset({"metadata.finalizers[]"}),
    change=_with_purge_finalizer,
)


def _as_in_production(deployment: Document) -> Document:
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    arguments = (
        "--leader-elect=true",
        "--kyma-requeue-success-interval=5m",
        "--istio-gateway-name=klm-watcher",
        "--listener-port-overwrite=9443",
        "--cert-management=cert.gardener.cloud/v1alpha1",
        "--log-level=9",
    )
    mount = {"name": "policy", "mountPath": "/etc/maintenance-policy"}
    volume = {"name": "policy", "configMap": {"name": "maintenance-policy", "optional": True, "defaultMode": 420}}
    pod = {
        **deployment["spec"]["template"]["spec"],
        "containers": [{**container, "args": [*arguments], "volumeMounts": [mount]}],
        "volumes": [volume],
    }
    spec = {**deployment["spec"], "template": {**deployment["spec"]["template"], "spec": pod}}
    return {**deployment, "spec": spec}


IN_PRODUCTION = Difference(
    why="operators choose the command line and mount the maintenance policy",
    cluster="kcp",
    kind="Deployment",
    name="klm-controller-manager",
    fields=frozenset(
        f"spec.template.spec.{each}" for each in ("containers[].args[]", "containers[].volumeMounts[]", "volumes[]")
    ),
    change=_as_in_production,
)


def _with_a_removed_watcher(configuration: Document) -> Document:
    (webhook,) = configuration["webhooks"]
    client = webhook["clientConfig"]
    name = f"{names.KCP_NAMESPACE}.removed.{names.GROUP}"
    removed = {
        **webhook,
        "name": name,
        "clientConfig": {**client, "service": {**client["service"], "path": "/validate/removed"}},
        "rules": [{**webhook["rules"][0], "apiGroups": ["removed.example.com"], "resources": ["things"]}],
    }
    keys = (f'k:{{"name":"{each}"}}' for each in (webhook["name"], name))
    managed = _with_copied_keys(configuration["metadata"]["managedFields"], *keys)
    return {**_in_metadata(configuration, managedFields=managed), "webhooks": [webhook, removed]}


REMOVED_WATCHER = Difference(
    why="another Watcher CR was deleted at the moment of the takeover",
    cluster="skr-1",
    kind="ValidatingWebhookConfiguration",
    name="skr-webhook",
    fields=frozenset({"webhooks[]"}),
    change=_with_a_removed_watcher,
)


def _of_a_dropped_module(release: Document) -> Document:
    name = "dropped"
    component = release["spec"]["ocmComponentName"].replace(MODULE.name, name)
    labels = {**release["metadata"]["labels"], names.MODULE_NAME: name}
    spec = {**release["spec"], "moduleName": name, "ocmComponentName": component}
    return {**_in_metadata(release, name=name, labels=labels), "spec": spec}


DROPPED_MODULE = Difference(
    why="the control plane dropped a module at the moment of the takeover",
    cluster="skr-1",
    kind="ModuleReleaseMeta",
    name=MODULE.name,
    fields=frozenset(
        {
            "metadata.labels.operator.kyma-project.io/module-name",
            "metadata.name",
            "spec.moduleName",
            "spec.ocmComponentName",
        }
    ),
    change=_of_a_dropped_module,
    adds=True,
)


def _with_its_descriptor(template: Document) -> Document:
    return {**template, "spec": {**template["spec"], "descriptor": descriptor_of(MODULE, modules.OLD)}}


def descriptor_of(module: GoModule, version: str, host: str = REGISTRY) -> Document:
    """Return the descriptor of a module's component, as a ModuleTemplate has it."""
    component = {
        "name": module.component,
        "version": version,
        "provider": "kyma-project.io",
        "repositoryContexts": [context_of(f"http://{host}")],
        "resources": [resource_of("raw-manifest", version, module.layer(version))],
        "sources": [],
        "componentReferences": [],
    }
    return {"meta": {"schemaVersion": "v2"}, "component": component}


DESCRIPTOR_IN_TEMPLATE = Difference(
    why="older catalogs have the descriptor in the ModuleTemplate",
    cluster="kcp",
    kind="ModuleTemplate",
    name=MODULE.name,
    fields=frozenset({"spec.descriptor"}),
    change=_with_its_descriptor,
)
DIFFERENCES = (PURGE_FINALIZER, IN_PRODUCTION, REMOVED_WATCHER, DROPPED_MODULE, DESCRIPTOR_IN_TEMPLATE)
