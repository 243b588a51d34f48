"""Component descriptors in a real registry, laid out as the Open Component Model says, and what comes of them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kube_runtime import Client, dump_yaml
from kube_simulation import Simulation
from kyma_oci import Blob, Components, FoundDescriptor, Login, Registries, artifact_in, component_of
from kyma_oci.packing import config_of, repository_of, tag_of
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS, MODULE_TEMPLATES, SECRETS
from lifecycle_manager.module_catalog import ComponentVersion, LookupFailed
from lifecycle_manager.module_sources import Blobs, ObjectStore, read_yaml, source_in
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import Manifest, as_document, names
from tests import builders
from tests.clusters import simulated_client, simulated_control_plane
from tests.registries import NAME, PASSWORD, NoRegistry, packed, real_registry
from tests.waiting import eventually

COMPONENT = "kyma-project.io/module/telemetry"
KCP = names.KCP_NAMESPACE
CONFIG_MAP = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
OBJECTS = Blob(packed({"one.yaml": CONFIG_MAP}), "application/x-tar")
OCM = "application/vnd.ocm.software.component-descriptor"
ELSEWHERE = {"type": "OCIRegistry", "baseUrl": "registry.example.com/elsewhere"}
RESOURCE = {"name": "raw-manifest", "access": {"type": "localBlob", "localReference": OBJECTS.digest}}


@dataclass
class Shelf:
    host: str
    registries: Registries = field(default_factory=Registries)

    async def push(self, version: str, *layers: Blob, path: str = "modules") -> None:
        artifact = artifact_in(f"http://{self.host}", repository_of(COMPONENT, path), tag_of(version))
        await self.registries.push(artifact, config_of(layers[0]), layers, Login(NAME, PASSWORD))

    async def find(self, version: str, pinned: str = "") -> FoundDescriptor:
        components = Components(self.registries, login, read_yaml, f"http://{self.host}/modules")
        return await components.descriptor(ComponentVersion(COMPONENT, version), pinned)


async def login(_host: str) -> Login:
    return Login(NAME, PASSWORD)


async def no_link(link: str) -> str:
    raise AssertionError(link)


def version_2(version: str, component: str = COMPONENT) -> dict[str, Any]:
    content = {"name": component, "version": version, "repositoryContexts": [ELSEWHERE], "resources": [RESOURCE]}
    return {"meta": {"schemaVersion": "v2"}, "component": {"provider": "kyma-project.io", **content}}


def version_3(version: str) -> dict[str, Any]:
    return {
        "apiVersion": "ocm.software/v3alpha1",
        "kind": "ComponentVersion",
        "metadata": {"name": COMPONENT, "version": version, "provider": {"name": "kyma-project.io"}},
        "repositoryContexts": [ELSEWHERE],
        "spec": {"resources": [RESOURCE]},
    }


def in_tar(descriptor: dict[str, Any], media_type: str = f"{OCM}.v2+yaml+tar") -> Blob:
    return Blob(packed({"component-descriptor.yaml": dump_yaml(descriptor)}), media_type)


@pytest.fixture
async def shelf(tmp_path: Path) -> AsyncIterator[Shelf]:
    try:
        async with real_registry(tmp_path, private=True) as host:
            shelf = Shelf(host)
            yield shelf
            await shelf.registries.close()
    except NoRegistry as error:
        pytest.skip(str(error))


@pytest.mark.parametrize(
    ("schema", "layer"),
    [
        (version_2, in_tar),
        (version_2, lambda it: in_tar(it, "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml+tar")),
        (version_2, lambda it: Blob(msgspec.json.encode(it), f"{OCM}.v2+json")),
        (version_3, lambda it: in_tar(it, f"{OCM}.v3+yaml+tar")),
    ],
    ids=["v2", "v2 of gardener", "v2 as JSON", "v3alpha1"],
)
async def test_module_is_installed_from_the_component_that_its_descriptor_was_found_in(
    shelf: Shelf, tmp_path: Path, schema: Callable[[str], dict[str, Any]], layer: Callable[[dict[str, Any]], Blob]
) -> None:
    await shelf.push("1.2.3+4", layer(schema("1.2.3+4")), OBJECTS)
    component = component_of((await shelf.find("1.2.3+4")).descriptor)
    source = component.source("raw-manifest")
    assert source is not None
    assert source["repo"] == f"http://{shelf.host}/modules"  # not where it was before
    store = ObjectStore(shelf.registries, no_link, Blobs(tmp_path / "layers"))
    found = await store.objects(source_in(msgspec.Raw(msgspec.json.encode(source))), login)
    assert [each.name for each in found.objects] == ["one"]


async def test_pinned_descriptor_is_found_by_its_digest_whatever_its_tag_names(shelf: Shelf) -> None:
    await shelf.push("1.0.0", in_tar(version_2("1.0.0")), OBJECTS)
    first = await shelf.find("1.0.0")
    assert first.digest == first.tagged
    await shelf.push("1.0.0", in_tar(version_3("1.0.0")), OBJECTS)
    moved = await shelf.find("1.0.0")
    again = await shelf.find("1.0.0", first.digest)
    assert moved.digest != first.digest
    assert again == FoundDescriptor(first.descriptor, first.digest, moved.digest)
    with pytest.raises(LookupFailed):
        await shelf.find("1.0.0", f"sha256:{'0' * 64}")


@pytest.mark.parametrize(
    ("layers", "says"),
    [
        ((), "has no"),
        ((OBJECTS,), "has no component descriptor among its layers"),
        ((in_tar(version_2("1.0.1")),), f"holds the descriptor of {COMPONENT}:1.0.1"),
        ((in_tar(version_2("1.0.0", "kyma-project.io/module/other")),), "holds the descriptor of kyma-project.io/mod"),
        ((in_tar({"kind": "Pod"}),), "spec.descriptor.component is missing"),
        ((Blob(packed({"it.yaml": "a: [b"}), f"{OCM}.v2+yaml+tar"),), "has an unreadable descriptor"),
        ((Blob(packed({"it.yaml": "- a"}), f"{OCM}.v2+yaml+tar"),), "has a descriptor that is not an object"),
    ],
    ids=["missing", "none", "version", "component", "no component", "broken", "list"],
)
async def test_what_is_wrong_with_a_component_is_reported(shelf: Shelf, layers: tuple[Blob, ...], says: str) -> None:
    if layers:
        await shelf.push("1.0.0", *layers)
    with pytest.raises(LookupFailed) as raised:
        await shelf.find("1.0.0")
    assert says in str(raised.value)
    assert f"{shelf.host}/modules/component-descriptors/{COMPONENT}:1.0.0" in str(raised.value)
    assert raised.value.again_after_seconds > 0


async def test_nothing_is_looked_up_where_no_registry_is_named() -> None:
    with pytest.raises(LookupFailed, match="the option oci-registry-host names no registry"):
        await Components(Registries(), login, read_yaml, "").descriptor(ComponentVersion(COMPONENT, "1.0.0"))


async def test_module_without_a_descriptor_of_its_own_reaches_the_cluster(
    shelf: Shelf, simulation: Simulation, tmp_path: Path
) -> None:
    await shelf.push("1.0.0", in_tar(version_2("1.0.0")), OBJECTS)
    kcp, skr = await simulated_control_plane(simulation), await simulated_client(simulation, "skr")
    options: dict[str, Any] = {
        "oci_registry_host": f"http://{shelf.host}",
        "modules_repository_subpath": "modules",
        "oci_registry_cred_secret": "registry",
        "allow_insecure_kubeconfigs": True,
        "module_cache_dir": tmp_path / "layers",
        **{f"{name}_bind_address": "127.0.0.1:0" for name in ("kyma_skr_listener", "metrics", "health_probe")},
    }
    async with kcp, skr:
        await prepare(kcp, skr, shelf.host)
        stopping = asyncio.Event()
        async with lifecycle_manager(Settings(options), kcp) as manager, asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stopping))

            async def ready() -> Manifest | None:
                found = (await kcp.list(MANIFESTS, KCP)).items
                return found[0] if found and found[0].status.state == "Ready" else None

            manifest = await eventually(ready, within=60)
            stopping.set()
    assert manifest is not None
    assert manifest.metadata.annotations[names.OCM_COMPONENT_NAME] == COMPONENT
    assert [each.name for each in manifest.status.synced] == ["one"]


async def prepare(kcp: Client, skr: Client, host: str) -> None:
    """Put a cluster, the registry's credentials, and a module without a descriptor into the control plane."""
    template = as_document(builders.template("telemetry", "1.0.0", data=None, enable_module_config=False))
    template["spec"]["descriptor"] = {}
    release = as_document(builders.release("telemetry", regular="1.0.0", spec={"ocmComponentName": COMPONENT}))
    for document in (template, release):
        document["metadata"] = {"name": document["metadata"]["name"]}
    await kcp.create(MODULE_TEMPLATES, template, KCP, field_manager="module-team")
    await kcp.create(MODULE_RELEASE_METAS, release, KCP, field_manager="module-team")
    logins = {"auths": {host: {"username": NAME, "password": PASSWORD}}}
    registry = {"metadata": {"name": "registry"}, "data": {".dockerconfigjson": encoded(logins)}}
    kubeconfig = {
        "current-context": "skr",
        "contexts": [{"name": "skr", "context": {"cluster": "skr", "user": "user"}}],
        "clusters": [{"name": "skr", "cluster": {"server": skr.server}}],
        "users": [{"name": "user", "user": {}}],
    }
    labels = {names.KYMA_NAME: "demo", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    access = {"metadata": {"name": "kubeconfig-demo", "labels": labels}, "data": {"config": encoded(kubeconfig)}}
    for secret in (registry, access):
        await kcp.create(SECRETS, secret, KCP, field_manager="operator")
    spec = {"channel": "regular", "modules": [{"name": "telemetry", "managed": True}]}
    await kcp.create(KYMAS, {"metadata": {"name": "demo"}, "spec": spec}, KCP, field_manager="operator")


def encoded(value: Any) -> str:
    return base64.b64encode(msgspec.json.encode(value)).decode()
