"""What the Lifecycle Manager in Go left, by its recording: objects are read, compared and written as it did."""

from collections.abc import AsyncIterator
from importlib.resources import files
from typing import Any, TypeVar

import msgspec
import pytest
import pytest_asyncio

from kube_runtime import Client, ObjectUnreadable, parse_objects
from kube_runtime.client.kubeconfig import STRICT
from kube_simulation import Simulation
from kyma_oci import Component, Layer, component_of
from kyma_takeover.adoption.findings import obstacles_of
from kyma_takeover.adoption.reading import ACCESSES, read_control_plane
from lifecycle_manager.catalog_sync.rules import differences
from lifecycle_manager.catalog_sync.wanted import CRDS, WantedCatalog, wanted_catalog
from lifecycle_manager.contract.resources import MANIFESTS
from lifecycle_manager.kyma.crd import copy_for_skr
from lifecycle_manager.kyma.wanted import default_cr_reference
from lifecycle_manager.module_catalog.audience import excluded
from lifecycle_manager.module_catalog.manifests import differs, wanted_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.writing import apply_manifest
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager_api import Kyma, Manifest, ModuleReleaseMeta, ModuleTemplate, Watcher, names
from lifecycle_manager_api.crds import crd_for
from tests.clusters import simulated_control_plane
from tests.takeover_from_go.recordings import FIRST, REGISTRY, recorded, restore, the
from tests.world import KCP

T = TypeVar("T")
MODULES = ("eventing", "gateways", "monitoring", "serverless", "storage", "telemetry", "warden")


def typed(document: dict[str, Any], kind: type[T]) -> T:
    return msgspec.json.decode(msgspec.json.encode(document), type=kind)


def templates() -> tuple[ModuleTemplate, ...]:
    return tuple(typed(each, ModuleTemplate) for each in recorded("kcp", "ModuleTemplate"))


def releases() -> tuple[ModuleReleaseMeta, ...]:
    return tuple(typed(each, ModuleReleaseMeta) for each in recorded("kcp", "ModuleReleaseMeta"))


def offer() -> Offer:
    return Offer.of(templates(), releases())


def kyma(name: str = FIRST) -> Kyma:
    return typed(the("kcp", "Kyma", name), Kyma)


def manifest_of(module: str) -> Manifest:
    (found,) = recorded("kcp", "Manifest", belonging_to=f"{FIRST}-{module}")
    return typed(found, Manifest)


def component(manifest: Manifest, registry: str = REGISTRY) -> Component:
    """The component as its descriptor says it, which `modulectl` made."""
    source = msgspec.json.decode(manifest.spec.install.source)
    access = {"type": "localBlob", "localReference": source["ref"], "mediaType": "application/x-tar"}
    document = {
        "name": source["name"],
        "version": manifest.spec.version,
        "repositoryContexts": [{"type": "OCIRegistry", "baseUrl": registry, "componentNameMapping": "urlPath"}],
        "resources": [{"name": "raw-manifest", "type": "directoryTree", "access": access}],
    }
    return component_of(msgspec.Raw(msgspec.json.encode({"component": document})))


def wanted_of(module: str, **changed: Any) -> Manifest:
    held, catalog = manifest_of(module), offer()
    template = catalog.templates[f"{module}-1.0.0"]
    chosen: dict[str, Any] = {"mandatory": True} if module == "warden" else {"channel": "regular"}
    chosen["default_cr"] = catalog.default_cr(template)
    found = wanted_manifest(kyma(), template, component(held), held=held, **{**chosen, **changed})
    assert found is not None
    return found


@pytest.mark.parametrize("module", MODULES)
def test_manifest_is_as_wanted_and_so_not_written(module: str) -> None:
    held = manifest_of(module)
    wanted = wanted_of(module)
    assert msgspec.json.decode(wanted.spec.install.source) == msgspec.json.decode(held.spec.install.source)
    assert wanted.spec.remote == held.spec.remote
    assert differs(held, wanted) is (module == "gateways")  # whose label of the scope becomes its own annotation


@pytest.mark.parametrize(
    ("registry", "written"),
    [
        (f"http://{REGISTRY}", REGISTRY),
        (f"https://{REGISTRY}/modules", f"{REGISTRY}/modules"),
        ("http://127.0.0.1:5000", "127.0.0.1:5000"),
        ("https://127.0.0.1:5000", "https://127.0.0.1:5000"),  # there, a registry without a scheme has no TLS
    ],
)
def test_source_names_its_registry_without_the_scheme(registry: str, written: str) -> None:
    source = component(manifest_of("serverless"), registry).source("raw-manifest")
    assert source is not None
    assert source["repo"] == written


@pytest.mark.parametrize("registry", ["127.0.0.1:5000", "http://127.0.0.1:5000"])
def test_source_of_a_registry_without_tls_is_read_in_both_forms(registry: str) -> None:
    named = msgspec.json.decode(manifest_of("serverless").spec.install.source) | {"repo": registry}
    found = source_in(msgspec.Raw(msgspec.json.encode(named)))
    assert isinstance(found, Layer)
    assert (found.scheme, found.host) == ("http", "127.0.0.1:5000")


@pytest.mark.parametrize("value", ["true", "True", "TRUE"])
def test_module_for_internal_clusters_is_offered_to_them_alone(value: str) -> None:
    template = the("kcp", "ModuleTemplate", "telemetry")
    assert template["metadata"]["labels"][names.INTERNAL] == "True"
    release = typed(
        {**the("kcp", "ModuleReleaseMeta", "telemetry"), "spec": {"moduleName": "telemetry"}}, ModuleReleaseMeta
    )
    found = typed(template, ModuleTemplate)
    assert excluded({names.INTERNAL: value}, found, release) is None
    assert excluded({names.INTERNAL: "False"}, found, release) is not None


def test_source_is_where_the_go_version_pulls_it() -> None:
    source = manifest_of("serverless").spec.install.source
    path = "component-descriptors/kyma-project.io/module/serverless"
    assert str(source_in(source)).startswith(f"{REGISTRY}/{path}@sha256:")
    named = msgspec.json.decode(source) | {"repo": f"{REGISTRY}/component-descriptors", "type": "oci-ref"}
    assert source_in(msgspec.Raw(msgspec.json.encode(named))) == source_in(source)


@pytest.mark.parametrize("module", ["serverless", "gateways", "eventing"])
def test_status_names_the_default_module_cr_as_the_go_version_does(module: str) -> None:
    catalog = offer()
    found = default_cr_reference(catalog, catalog.templates[f"{module}-1.0.0"])
    (status,) = (each for each in kyma().status.modules if each.name == module)
    assert found == status.resource


@pytest.mark.parametrize(("cluster", "name"), [("skr-1", FIRST), ("skr-2", "b7d04be1")])
def test_catalog_of_a_cluster_is_what_the_go_version_wrote(cluster: str, name: str) -> None:
    wanted = catalog_of(name)
    held = recorded(cluster, "ModuleTemplate", "ModuleReleaseMeta")
    assert {key: each.document["spec"] for key, each in wanted.items.items()} == {
        (each["kind"], each["metadata"]["name"]): each["spec"] for each in held
    }


def test_version_that_no_channel_names_leaves_the_clusters() -> None:
    old = typed({**the("kcp", "ModuleTemplate", "storage"), "metadata": {"name": "storage-0.9.0"}}, ModuleTemplate)
    old = msgspec.structs.replace(old, spec=msgspec.structs.replace(old.spec, version="0.9.0"))
    wanted = wanted_catalog(Offer.of((*templates(), old), releases()), kyma().metadata.labels)
    assert ("ModuleTemplate", "storage-0.9.0") not in wanted.items
    live = {("ModuleTemplate", "storage-0.9.0"): old}
    assert differences(wanted, live, ("ModuleTemplate",))[1] == (("ModuleTemplate", "storage-0.9.0"),)


def catalog_of(name: str) -> WantedCatalog:
    return wanted_catalog(offer(), kyma(name).metadata.labels)


@pytest.mark.parametrize("plural", ["kymas", "moduletemplates", "modulereleasemetas"])
def test_crds_of_a_cluster_have_the_labels_that_the_go_version_wrote(plural: str) -> None:
    ours = {each.name: each.document for each in CRDS}
    held = the("skr-1", "CustomResourceDefinition", f"{plural}.operator")
    applied = ours.get(held["metadata"]["name"]) or copy_for_skr(the("kcp", "CustomResourceDefinition", f"{plural}.op"))
    assert applied["metadata"]["labels"] == held["metadata"]["labels"]


@pytest.mark.parametrize("kind", [Kyma, Manifest, ModuleTemplate, ModuleReleaseMeta, Watcher], ids=lambda it: it.KIND)
def test_object_that_the_go_version_creates_has_no_status_by_default(kind: Any) -> None:
    held = the("kcp", "CustomResourceDefinition", f"{kind.PLURAL}.operator")
    for crd in (held, crd_for(kind)):
        properties = [each["schema"]["openAPIV3Schema"].get("properties", {}) for each in crd["spec"]["versions"]]
        assert [each["status"] for each in properties if "default" in each.get("status", {})] == []


@pytest_asyncio.fixture
async def kcp(simulation: Simulation) -> AsyncIterator[Client]:
    async with await simulated_control_plane(simulation) as client:
        await restore(client, recorded("kcp", "ModuleTemplate", "ModuleReleaseMeta", "Kyma", "Manifest", "Watcher"))
        yield client


async def test_nothing_of_it_is_in_the_way_of_a_takeover(kcp: Client) -> None:
    def left_out(error: ObjectUnreadable) -> None:
        pytest.fail(str(error))

    seen = await read_control_plane(
        kcp, lease_namespace="leases", ca_namespace="istio-system", policy=STRICT, left_out=left_out
    )
    seen.unread[ACCESSES] = "left out of the recording"
    seen.secrets = None
    assert [each.text for each in obstacles_of(seen, (), ()) if ACCESSES not in each.text] == []


OTHER = msgspec.Raw(b'{"apiVersion":"v1","kind":"X"}')


class Held:
    """What apply_manifest needs of an informer."""

    resource = MANIFESTS

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest

    def get(self, _key: object) -> Manifest:
        return self.manifest

    def wrote(self, answer: Manifest) -> None:
        self.manifest = answer


@pytest.mark.parametrize("changed", [{"policy": "Ignore"}, {"default_cr": OTHER}])
async def test_manifest_loses_what_is_no_longer_wanted(kcp: Client, changed: dict[str, Any]) -> None:
    wanted = wanted_of("eventing", **changed)
    held = Held(await kcp.get(MANIFESTS, wanted.metadata.name, KCP))

    await apply_manifest(kcp, held, wanted)  # type: ignore[arg-type]

    assert not differs(held.manifest, wanted)


async def test_edited_manifest_is_reset_but_for_the_images_that_others_put_on_it(kcp: Client) -> None:
    wanted = wanted_of("eventing")
    name = wanted.metadata.name
    await apply_manifest(kcp, Held(await kcp.get(MANIFESTS, name, KCP)), wanted)  # type: ignore[arg-type]
    edit = {"spec": {"localizedImages": ["x:1"], "resource": {"spec": {"more": 1}}}}
    edited = Held(await kcp.merge_patch(MANIFESTS, name, edit, KCP, field_manager="kubectl-edit"))

    await apply_manifest(kcp, edited, wanted)  # type: ignore[arg-type]

    assert not differs(edited.manifest, wanted)
    assert edited.manifest.spec.localized_images == ("x:1",)


async def test_manifest_of_the_former_version_is_written_with_the_rights_of_the_role(
    kcp: Client, simulation: Simulation
) -> None:
    wanted = wanted_of("eventing", default_cr=OTHER)
    held = Held(await kcp.get(MANIFESTS, wanted.metadata.name, KCP))
    before = simulation.requests()[-1].number

    await apply_manifest(kcp, held, wanted)  # type: ignore[arg-type]

    granted = {
        verb
        for role in parse_objects(files("lifecycle_manager.rbac").joinpath("kcp.yaml").read_text())
        for rule in role.document["rules"]
        if "manifests" in rule["resources"]
        for verb in rule["verbs"]
    }
    asked = {each.verb for each in simulation.requests(lambda it: it.resource.startswith("manifests"), since=before)}
    assert asked == {"apply", "patch"}
    assert {each.replace("apply", "patch") for each in asked} <= granted
