"""Seven modules as `modulectl` brings them to a registry and to the catalog, and what is particular about each."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from kube_runtime import dump_yaml
from kyma_oci import Registries, artifact_in
from kyma_oci.packing import Blob, config_of, context_of, descriptor_layer, file_layer, repository_of, resource_of
from lifecycle_manager_api import names
from tests.kinds import crd_of

Document = dict[str, Any]
OLD, NEW = "1.0.0", "1.1.0"
FINALIZER = "example.com/operator"


@dataclass(frozen=True, kw_only=True)
class GoModule:
    """A module. `default` is the namespace that its template gives the default CR, None for none.

    `labels` are those of its template, `release` what its ModuleReleaseMeta says beside the channels; `config_maps` is
    how many of these it has beside the others.
    """

    name: str
    default: str | None = None
    is_cluster_scoped: bool = False
    is_mandatory: bool = False
    labels: dict[str, str] = field(default_factory=dict)
    release: Document = field(default_factory=dict)
    config_maps: int = 0

    @property
    def group(self) -> str:
        return f"{self.name}.example.com"

    @property
    def component(self) -> str:
        return f"kyma-project.io/module/{self.name}"

    @property
    def namespace(self) -> str | None:
        """Where its default CR is."""
        return None if self.is_cluster_scoped else self.default or names.SKR_NAMESPACE

    def objects(self, version: str) -> Iterator[Document]:
        """Yield the objects of a version. The first has more than the next one."""
        place, first = {"namespace": names.SKR_NAMESPACE}, version == OLD
        yield self._definition()
        yield _object("v1", "ConfigMap", {"name": self.name, **place}, data={"version": version, **_legacy(first)})
        if first:
            yield _object("v1", "ConfigMap", {"name": f"{self.name}-legacy", **place}, data={"of": version})
        for number in range(self.config_maps):
            metadata = {"name": f"{self.name}-{number}", **place}
            yield _object("v1", "ConfigMap", metadata, data={"version": version})
        rules = [{"apiGroups": [self.group], "resources": ["samples"], "verbs": ["*"]}]
        yield _object("rbac.authorization.k8s.io/v1", "ClusterRole", {"name": self.name}, rules=rules)
        labels = {"app": self.name}
        template = {"metadata": {"labels": labels}, "spec": _pod(self.name, version, first)}
        spec = {"replicas": 1, "selector": {"matchLabels": labels}, "template": template}
        yield _object("apps/v1", "Deployment", {"name": self.name, **place}, spec=spec)

    def text(self, version: str) -> str:
        """Return the objects of a version as its layer has them."""
        return "---\n".join(dump_yaml(each) for each in self.objects(version))

    def layer(self, version: str) -> Blob:
        """Return the layer of a version."""
        return file_layer("manifest.yaml", self.text(version))

    def default_cr(self) -> Document:
        """Return the default CR as the template has it."""
        metadata = {"name": self.name, **({"namespace": self.default} if self.default else {})}
        return _object(f"{self.group}/v1alpha1", "Sample", metadata, spec={"resourceFilePath": "./module-data/yaml"})

    def template(self, version: str) -> Document:
        manager = {"group": "apps", "version": "v1", "kind": "Deployment", "name": self.name}
        annotations = {names.IS_CLUSTER_SCOPED: "true"} if self.is_cluster_scoped else {}
        metadata = {
            "name": f"{self.name}-{version}",
            "namespace": names.KCP_NAMESPACE,
            "labels": {names.MODULE_NAME: self.name, **self.labels},
            "annotations": annotations,
        }
        spec = {
            "moduleName": self.name,
            "version": version,
            "mandatory": self.is_mandatory,
            "requiresDowntime": False,
            "info": {"repository": f"https://example.com/{self.name}", "documentation": "https://example.com/docs"},
            "manager": {**manager, "namespace": names.SKR_NAMESPACE},
            "data": self.default_cr(),
            "descriptor": {},
        }
        return _object(f"{names.GROUP}/v1beta2", "ModuleTemplate", metadata, spec=spec)

    def release_meta(self, **channels: str) -> Document:
        """Return the ModuleReleaseMeta with the versions of its channels; that of a mandatory one has one version."""
        metadata = {"name": self.name, "namespace": names.KCP_NAMESPACE, "labels": {names.MODULE_NAME: self.name}}
        listed = [{"channel": channel, "version": version} for channel, version in channels.items()]
        versions = {"mandatory": {"version": channels["regular"]}} if self.is_mandatory else {"channels": listed}
        spec = {"moduleName": self.name, "ocmComponentName": self.component, **versions, **self.release}
        return _object(f"{names.GROUP}/v1beta2", "ModuleReleaseMeta", metadata, spec=spec)

    async def push(self, registries: Registries, host: str, version: str) -> None:
        """Bring a version to a registry, as a component with its manifest as a tar."""
        layer = self.layer(version)
        resource = resource_of("raw-manifest", version, layer)
        component = {
            "name": self.component,
            "version": version,
            "provider": "kyma-project.io",
            "repositoryContexts": [context_of(f"http://{host}")],
            "resources": [resource],
            "sources": [],
            "componentReferences": [],
        }
        descriptor = descriptor_layer(dump_yaml({"meta": {"schemaVersion": "v2"}, "component": component}))
        artifact = artifact_in(f"http://{host}", repository_of(self.component), version)
        await registries.push(artifact, config_of(descriptor), (descriptor, layer))

    def _definition(self) -> Document:
        scope = "Cluster" if self.is_cluster_scoped else "Namespaced"
        return crd_of(self.group, "Sample", stored="v1alpha1", scope=scope, has_status=True)


SERVERLESS = GoModule(name="serverless", default="default")
TELEMETRY = GoModule(name="telemetry", labels={names.INTERNAL: "True"}, release={"internal": True})
GATEWAYS = GoModule(name="gateways", is_cluster_scoped=True)
MONITORING = GoModule(name="monitoring")
WARDEN = GoModule(name="warden", is_mandatory=True)
EVENTING = GoModule(name="eventing")
STORAGE = GoModule(name="storage", default="kyma-system")
INSTALLED = (SERVERLESS, TELEMETRY, GATEWAYS, MONITORING, WARDEN, EVENTING, STORAGE)
EVERYWHERE = ("serverless", "gateways", "monitoring", "eventing", "storage")
CHOSEN = ((*EVERYWHERE, "telemetry"), EVERYWHERE)
"""What the users of the two clusters choose. The mandatory one comes by itself; one is offered to the first alone."""
LATER = GoModule(name="logging", labels={names.BETA: "TRUE"}, release={"beta": True})
"""Enabled only when the Go version runs again."""


def _object(api_version: str, kind: str, metadata: Document, **content: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}


def _legacy(first: bool) -> dict[str, str]:
    return {"legacy": "true"} if first else {}


def _pod(name: str, version: str, first: bool) -> Document:
    container: Document = {
        "name": "manager",
        "image": f"registry.example.com/{name}:{version}",
        "env": [{"name": "LOG_LEVEL", "value": "info"}],
    }
    if not first:
        return {"containers": [container]}
    container["env"] = [*container["env"], {"name": "LEGACY", "value": "true"}]
    container["volumeMounts"] = [{"name": "ssl", "mountPath": "/ssl"}]
    sidecar = {"name": "sidecar", "image": "registry.example.com/sidecar:1.0.0"}
    return {"containers": [container, sidecar], "volumes": [{"name": "ssl", "emptyDir": {}}]}
