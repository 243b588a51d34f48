"""Component descriptors in a real registry, laid out as the Open Component Model says, and what comes of them."""

import asyncio
import base64
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey, generate_private_key
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kube_runtime import Client, Resource, dump_yaml
from kube_simulation import Simulation
from kyma_oci import (
    Blob,
    Components,
    ComponentVersion,
    FoundDescriptor,
    Login,
    LookupFailed,
    Registries,
    artifact_in,
    component_of,
)
from kyma_oci.packing import INDEX, MANIFEST, config_of, repository_of, resource_of, tag_of
from kyma_oci.signatures.cosign import CLAIM_TYPE, PAYLOAD_TYPE, SIGNATURE, signature_tag
from kyma_oci.signatures.descriptors import sign
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.resources import (
    KYMAS,
    MANIFESTS,
    MODULE_POLICIES,
    MODULE_RELEASE_METAS,
    MODULE_TEMPLATES,
    SECRETS,
)
from lifecycle_manager.module_sources.parsing import read_yaml
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager.module_sources.store import ObjectStore
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import Manifest, as_document, names
from tests import builders
from tests.bundles import BUNDLE, bundle
from tests.clusters import simulated_client, simulated_control_plane
from tests.kubeconfigs import kubeconfig
from tests.registries import NAME, PASSWORD, NoRegistry, no_link, packed, push, put_manifest, real_registry
from tests.waiting import eventually

COMPONENT = "kyma-project.io/module/telemetry"
KCP = names.KCP_NAMESPACE
CONFIG_MAP = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
OBJECTS = Blob(packed({"one.yaml": CONFIG_MAP}), "application/x-tar")
OCM = "application/vnd.ocm.software.component-descriptor"
ELSEWHERE = {"type": "OCIRegistry", "baseUrl": "registry.example.com/elsewhere"}
REPOSITORY = repository_of(COMPONENT, "modules")
RESOURCE = {"name": "raw-manifest", "access": {"type": "localBlob", "localReference": OBJECTS.digest}}


@dataclass
class Shelf:
    host: str
    registries: Registries = field(default_factory=Registries)

    async def push(self, version: str, *layers: Blob, path: str = "modules") -> None:
        artifact = artifact_in(f"http://{self.host}", repository_of(COMPONENT, path), tag_of(version))
        await self.registries.push(artifact, config_of(layers[0]), layers, Login(NAME, PASSWORD))

    async def index(self, version: str) -> str:
        """Put an image index with the artifact of a version in the place of its tag; return the digest of the index."""
        manifest = (await self.find(version)).digest
        parts = [{"mediaType": MANIFEST, "digest": manifest, "size": 0}]
        document = {"schemaVersion": 2, "mediaType": INDEX, "manifests": parts}
        return await put_manifest(self.host, REPOSITORY, version, document)

    async def cosign(self, digest: str, key: ec.EllipticCurvePrivateKey) -> None:
        """Sign a digest as cosign does in a registry that keeps no index of what refers to it."""
        content = bundle(digest, key)
        for each in (content, b"{}"):
            await push(self.host, REPOSITORY, each, private=True)
        document = {
            "schemaVersion": 2,
            "mediaType": MANIFEST,
            "artifactType": BUNDLE,
            "config": Blob(b"{}", "application/vnd.oci.empty.v1+json").descriptor(),
            "layers": [Blob(content, BUNDLE).descriptor()],
        }
        signature = await put_manifest(self.host, REPOSITORY, "signature", document)
        part = {"mediaType": MANIFEST, "digest": signature, "size": 0, "artifactType": BUNDLE}
        index = {"schemaVersion": 2, "mediaType": INDEX, "manifests": [part]}
        await put_manifest(self.host, REPOSITORY, digest.replace(":", "-"), index)

    async def cosign_before_3(self, digest: str, key: ec.EllipticCurvePrivateKey) -> None:
        claim = {"critical": {"image": {"docker-manifest-digest": digest}, "type": CLAIM_TYPE}}
        payload = Blob(msgspec.json.encode(claim), PAYLOAD_TYPE)
        config = Blob(b"{}", "application/vnd.oci.image.config.v1+json")
        for blob in (payload, config):
            await push(self.host, REPOSITORY, blob.content, private=True)
        signature = base64.b64encode(key.sign(payload.content, ec.ECDSA(SHA256()))).decode()
        layer = payload.descriptor() | {"annotations": {SIGNATURE: signature}}
        document = {"schemaVersion": 2, "mediaType": MANIFEST, "config": config.descriptor(), "layers": [layer]}
        await put_manifest(self.host, REPOSITORY, signature_tag(digest), document)

    async def find(self, version: str, pinned: str = "") -> FoundDescriptor:
        components = Components(self.registries, login, read_yaml, f"http://{self.host}/modules")
        return await components.descriptor(ComponentVersion(COMPONENT, version), pinned)


async def login(_host: str) -> Login:
    return Login(NAME, PASSWORD)


def version_2(version: str, component: str = COMPONENT) -> dict[str, Any]:
    content = {"name": component, "version": version, "repositoryContexts": [ELSEWHERE], "resources": [RESOURCE]}
    return {"meta": {"schemaVersion": "v2"}, "component": {"provider": "kyma-project.io", **content}}


def with_digests(version: str) -> dict[str, Any]:
    """Return a descriptor that can be signed."""
    descriptor = version_2(version)
    raw_manifest = resource_of("raw-manifest", version, OBJECTS)
    return {**descriptor, "component": descriptor["component"] | {"resources": [raw_manifest]}}


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
    shelf: Shelf, schema: Callable[[str], dict[str, Any]], layer: Callable[[dict[str, Any]], Blob]
) -> None:
    await shelf.push("1.2.3+4", layer(schema("1.2.3+4")), OBJECTS)
    component = component_of((await shelf.find("1.2.3+4")).descriptor)
    source = component.source("raw-manifest")
    assert source is not None
    assert source["repo"] == f"{shelf.host}/modules"  # not where it was before
    store = ObjectStore(shelf.registries, no_link)
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


@asynccontextmanager
async def running(shelf: Shelf, simulation: Simulation) -> AsyncIterator[Client]:
    """Run a Lifecycle Manager with one cluster, which looks descriptors up in the registry; give its control plane."""
    kcp, skr = await simulated_control_plane(simulation), await simulated_client(simulation, "skr")
    options: dict[str, Any] = {
        "oci_registry_host": f"http://{shelf.host}",
        "modules_repository_subpath": "modules",
        "oci_registry_cred_secret": "registry",
        "allow_insecure_kubeconfigs": True,
        "module_upgrade_rollout_max_delay": timedelta(0),
        **{f"{name}_bind_address": "127.0.0.1:0" for name in ("kyma_skr_listener", "metrics", "health_probe")},
    }
    async with kcp, skr:
        await prepare(kcp, skr, shelf.host)
        stopping = asyncio.Event()
        async with lifecycle_manager(Settings(options), kcp) as manager, asyncio.TaskGroup() as tasks:
            tasks.create_task(manager.run(stopping))
            yield kcp
            stopping.set()


async def installed(kcp: Client, version: str) -> Manifest:
    async def ready() -> Manifest | None:
        found = (await kcp.list(MANIFESTS, KCP)).items
        is_ready = found and found[0].spec.version == version and found[0].status.state == "Ready"
        return found[0] if is_ready else None

    manifest = await eventually(ready, within=60)
    assert manifest is not None
    return manifest


async def test_module_without_a_descriptor_of_its_own_reaches_the_cluster(shelf: Shelf, simulation: Simulation) -> None:
    await shelf.push("1.0.0", in_tar(version_2("1.0.0")), OBJECTS)
    async with running(shelf, simulation) as kcp:
        await offer(kcp, "1.0.0")
        manifest = await installed(kcp, "1.0.0")
    assert manifest.metadata.annotations[names.OCM_COMPONENT_NAME] == COMPONENT
    assert [each.name for each in manifest.status.synced] == ["one"]


async def test_module_that_has_to_be_signed_is_installed_only_in_versions_that_are(
    shelf: Shelf, simulation: Simulation
) -> None:
    """One version is signed by nobody, one by OCM's way, and two are image indexes that cosign signed."""
    rsa_key, cosign_key = generate_private_key(65537, 2048), ec.generate_private_key(ec.SECP256R1())
    await shelf.push("1.0.0", in_tar(with_digests("1.0.0")), OBJECTS)
    await shelf.push("1.1.0", in_tar(sign(with_digests("1.1.0"), rsa_key)), OBJECTS)
    for version, cosign in (("1.2.0", shelf.cosign), ("1.3.0", shelf.cosign_before_3)):
        await shelf.push(version, in_tar(with_digests(version)), OBJECTS)
        await cosign(await shelf.index(version), cosign_key)
    async with running(shelf, simulation) as kcp:
        await require_signatures(kcp, rsa_key, cosign_key)
        await offer(kcp, "1.0.0")

        async def refused() -> bool:
            found = (await kcp.get(KYMAS, "demo", KCP)).status.modules
            return bool(found) and "no signature of sha256:" in found[0].message

        await eventually(refused, within=60)
        assert not (await kcp.list(MANIFESTS, KCP)).items
        for version in ("1.1.0", "1.2.0", "1.3.0"):
            await offer(kcp, version)
            manifest = await installed(kcp, version)
            assert [each.name for each in manifest.status.synced] == ["one"]


async def prepare(kcp: Client, skr: Client, host: str) -> None:
    """Put a cluster, and the registry's credentials, into the control plane."""
    logins = {"auths": {host: {"username": NAME, "password": PASSWORD}}}
    registry = {"metadata": {"name": "registry"}, "data": {".dockerconfigjson": encoded(logins)}}
    config = encoded(kubeconfig({}, server=skr.server))
    labels = {names.KYMA_NAME: "demo", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    access = {"metadata": {"name": "kubeconfig-demo", "labels": labels}, "data": {"config": config}}
    for secret in (registry, access):
        await kcp.create(SECRETS, secret, KCP, field_manager="operator")
    spec = {"channel": "regular", "modules": [{"name": "telemetry", "managed": True}]}
    await kcp.create(KYMAS, {"metadata": {"name": "demo"}, "spec": spec}, KCP, field_manager="operator")


async def offer(kcp: Client, version: str) -> None:
    """Release a version of the module without a descriptor in its ModuleTemplate."""
    template = as_document(builders.template("telemetry", version, data=None, enable_module_config=False))
    template["spec"]["descriptor"] = {}
    release = as_document(builders.release("telemetry", regular=version, spec={"ocmComponentName": COMPONENT}))
    resources: tuple[tuple[Resource[Any], dict[str, Any]], ...] = (
        (MODULE_TEMPLATES, template),
        (MODULE_RELEASE_METAS, release),
    )
    for resource, document in resources:
        name = document["metadata"]["name"]
        document["metadata"] = {"name": name}
        await kcp.apply(resource, name, document, KCP, field_manager="module-team")


async def require_signatures(kcp: Client, *keys: RSAPrivateKey | ec.EllipticCurvePrivateKey) -> None:
    """Install the module only where it is signed by one of these keys."""
    public = [key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo) for key in keys]
    data = {f"{number}.pem": base64.b64encode(each).decode() for number, each in enumerate(public)}
    labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    secret = {"metadata": {"name": "signers", "labels": labels}, "data": data}
    await kcp.create(SECRETS, secret, KCP, field_manager="operator")
    allowed = {"allow": [{"group": "", "kind": "ConfigMap", "names": ["one"]}]}
    spec = {"verify": "enforce", "verificationSecret": "signers", "namespacedResources": allowed}
    await kcp.create(MODULE_POLICIES, {"metadata": {"name": "telemetry"}, "spec": spec}, KCP, field_manager="operator")


def encoded(value: Any) -> str:
    return base64.b64encode(msgspec.json.encode(value)).decode()
