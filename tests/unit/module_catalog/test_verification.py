"""Modules that have to be signed: which are refused, what is reported, and when that is found again."""

import base64
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from kube_runtime import ObjectKey, Result
from kube_simulation import Refuse
from kyma_oci import Component, ComponentVersion, DescriptorUnverified, FoundDescriptor, LookupFailed
from kyma_oci.signatures.cosign import Cosigned
from kyma_oci.signatures.descriptors import sign
from lifecycle_manager import module_catalog
from lifecycle_manager.contract.resources import MODULE_POLICIES, MODULE_TEMPLATES, SECRETS
from lifecycle_manager.contract.signals import DescriptorFound
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.verdicts import VERIFIED
from lifecycle_manager.module_catalog.verification import RECHECK_SECONDS, WRITE_AGAIN_SECONDS, Verifications
from lifecycle_manager_api import Condition, ModuleResource, ModuleTemplate, find, names
from tests import builders
from tests.registries import no_link
from tests.waiting import eventually
from tests.world import KCP, World, open_world

COMPONENT, SIGNERS = "kyma-project.io/module/telemetry", "signers"
TEMPLATE = "telemetry-1.0.0"
KEY, ANOTHER_KEY = generate_private_key(65537, 2048), generate_private_key(65537, 2048)
COSIGN_KEY = ec.generate_private_key(ec.SECP256R1())
LAYER, IMAGE, ARTIFACT = (f"sha256:{number * 64}" for number in "123")
RELEASE = builders.release("telemetry", regular="1.0.0", spec={"ocmComponentName": COMPONENT})


def digest(kind: str, value: str) -> dict[str, str]:
    found = value.removeprefix("sha256:")
    return {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": kind, "value": found}


def descriptor(version: str = "1.0.0", layer: str = LAYER) -> dict[str, Any]:
    """Return a descriptor of the module with everything that a signature needs."""
    made = builders.descriptor("telemetry", version)
    manifest = {
        "name": "raw-manifest",
        "access": {"type": "localBlob", "localReference": layer},
        "digest": digest("genericBlobDigest/v1", layer),
    }
    image = {
        "name": "telemetry",
        "version": "1.0.0",
        "access": {"type": "ociArtifact", "imageReference": "registry.example.com/telemetry:1.0.0"},
        "digest": digest("ociArtifactDigest/v1", IMAGE),
    }
    return {**made, "component": made["component"] | {"provider": "kyma-project.io", "resources": [manifest, image]}}


SIGNED = sign(descriptor(), KEY)
EVIL_ACCESS = {"type": "localBlob", "localReference": f"sha256:{'6' * 64}"}
EVIL = {"resources": [{"name": "raw-manifest", "access": EVIL_ACCESS}]}
TWO_SCHEMAS = SIGNED | {
    "apiVersion": "ocm.software/v3alpha1",
    "metadata": {"name": COMPONENT, "version": "1.0.0"},
    "spec": EVIL,
}
V3 = {"apiVersion": "ocm.software/v3alpha1", "metadata": {"name": COMPONENT}, "signatures": SIGNED["signatures"]}


def template(content: Mapping[str, Any], **spec: Any) -> ModuleTemplate:
    made = builders.template("telemetry", "1.0.0")
    changed = msgspec.structs.replace(made.spec, descriptor=msgspec.Raw(msgspec.json.encode(content)), **spec)
    return msgspec.structs.replace(made, spec=changed)


def renamed(offered: ModuleTemplate, name: str) -> ModuleTemplate:
    return msgspec.structs.replace(offered, metadata=msgspec.structs.replace(offered.metadata, name=name))


def public(key: Any = KEY) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


def certificate(until: datetime) -> bytes:
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "release")])
    builder = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(KEY.public_key())
    builder = builder.serial_number(1).not_valid_before(until - timedelta(days=30)).not_valid_after(until)
    return builder.sign(KEY, hashes.SHA256()).public_bytes(Encoding.PEM)


@dataclass
class Registry:
    """Holds one component, and what cosign signed for it."""

    content: Mapping[str, Any] = field(default_factory=descriptor)
    signed: tuple[Cosigned, ...] = ()
    why: str = ""
    asked: list[str] = field(default_factory=list)

    async def descriptor(self, wanted: ComponentVersion, pinned: str = "") -> FoundDescriptor:
        return FoundDescriptor(msgspec.Raw(msgspec.json.encode(self.content)), ARTIFACT, ARTIFACT)

    async def cosigned(self, wanted: ComponentVersion, digest: str) -> tuple[Cosigned, ...]:
        self.asked.append(digest)
        if self.why:
            raise LookupFailed(self.why, 7.0)
        return self.signed


def cosigned(content: str = ARTIFACT) -> Cosigned:
    claim = {"critical": {"image": {"docker-manifest-digest": content}, "type": "cosign container image signature"}}
    payload = msgspec.json.encode(claim)
    return Cosigned(payload, COSIGN_KEY.sign(payload, ec.ECDSA(hashes.SHA256())))


@dataclass
class Catalog:
    """A world with the domain."""

    world: World
    offers: Offers
    published: list[DescriptorFound]

    async def verify(self, name: str = TEMPLATE) -> Result:
        return await self.world.turn("verification", ObjectKey(KCP, name))

    async def look_up(self) -> None:
        await self.world.turn("descriptor", ComponentVersion(COMPONENT, "1.0.0"))

    async def ask(self, verify: str = "enforce", secret: str = SIGNERS, module: str = "telemetry") -> None:
        document = {"metadata": {"name": module}, "spec": {"verify": verify, "verificationSecret": secret}}
        await self.world.kcp.apply(MODULE_POLICIES, module, document, KCP, field_manager="operator")

    @property
    def verifications(self) -> Verifications:
        assert self.offers.verifications is not None
        return self.offers.verifications

    async def trust(self, **keys: bytes) -> None:
        data = {name: base64.b64encode(value).decode() for name, value in keys.items()}
        labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        document = {"metadata": {"name": SIGNERS, "labels": labels}, "data": data}
        await self.world.kcp.apply(SECRETS, SIGNERS, document, KCP, field_manager="operator", force=True)

    def component(self) -> Component:
        found = self.offers.current().template("telemetry", "1.0.0")
        assert found is not None
        return self.offers.current().component(found)

    def refusal(self) -> str:
        with pytest.raises(DescriptorUnverified) as refused:
            self.component()
        return str(refused.value)

    async def condition(self) -> Condition | None:
        found = await self.world.kcp.get(MODULE_TEMPLATES, TEMPLATE, KCP)
        return find(found.status.conditions, VERIFIED)


@asynccontextmanager
async def catalog(offered: ModuleTemplate, registry: Registry | None = None, **keys: bytes) -> AsyncIterator[Catalog]:
    """Open a world with a template, whose module has to be signed by one of the keys, if any."""
    async with open_world() as world:
        offers = module_catalog.setup(world.manager, registry or Registry(), no_link)
        published: list[DescriptorFound] = []
        world.manager.on(DescriptorFound, published.append)
        await world.offer(offered, RELEASE)
        opened = Catalog(world, offers, published)
        if keys:
            await opened.ask()
            await opened.trust(**keys)
        yield opened


async def test_signed_module_is_installed_with_its_images_by_digest() -> None:
    async with catalog(template(SIGNED)) as it:
        await it.ask()
        await it.trust(key=public(ANOTHER_KEY), renewed=public())
        await it.world.sync_caches()
        assert "is being verified" in it.refusal()
        assert (await it.verify()).requeue_after == RECHECK_SECONDS
        component = it.component()
        assert component.layers == {"raw-manifest": LAYER}
        assert component.images == (f"registry.example.com/telemetry:1.0.0@{IMAGE}",)
        condition = await it.condition()
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", VERIFIED)
        await it.verify()
        assert it.published == [DescriptorFound(KCP, TEMPLATE)]


@pytest.mark.parametrize(
    ("offered", "problem"),
    [
        (template(descriptor()), "has no signature"),
        (template(sign(descriptor(), ANOTHER_KEY)), "not by any of the trusted keys"),
        (template({**descriptor(layer=IMAGE), "signatures": SIGNED["signatures"]}), "changed after it was signed"),
        (template(V3), "needs the schema v2"),
        (template(TWO_SCHEMAS), "needs the schema v2: Object contains unknown field"),
    ],
)
async def test_module_that_is_not_signed_as_required_is_refused(offered: ModuleTemplate, problem: str) -> None:
    async with catalog(offered, key=public()) as it:
        await it.verify()
        condition = await it.condition()
        assert condition is not None
        assert problem in it.refusal()
        assert condition.status == "False"
        assert problem in condition.message
        assert "klm module package --sign" in condition.message


async def test_looked_up_descriptor_with_two_schemas_is_refused_however_it_is_signed() -> None:
    registry = Registry(TWO_SCHEMAS, signed=(cosigned(),))
    async with catalog(template({}), registry, key=public(), cosign=public(COSIGN_KEY)) as it:
        await it.look_up()
        await it.verify()
        assert "unknown field" in it.refusal()


async def test_signed_version_is_not_offered_as_a_higher_one() -> None:
    rolled_back = template(SIGNED, version="")
    rolled_back = renamed(rolled_back, "telemetry-2.0.0")
    async with catalog(rolled_back, key=public()) as it:
        await it.verify(rolled_back.metadata.name)
        offer = it.offers.current()
        assert offer.template("telemetry", "2.0.0") is offer.template("telemetry", "1.0.0") is None
        assert "the component in spec.descriptor has 1.0.0" in offer.absence("telemetry", "2.0.0")


@pytest.mark.parametrize(
    ("release", "offered"),
    [
        ({}, False),
        ({"ocmComponentName": COMPONENT}, True),
        ({"ocmComponentName": "kyma-project.io/module/logging"}, False),
    ],
)
async def test_signed_component_of_another_module_is_not_offered(release: dict[str, str], offered: bool) -> None:
    """The keys of one team may sign several modules, and a component may be named otherwise than its module."""
    logging, content = builders.template("logging", "1.0.0"), template(SIGNED).spec.descriptor
    logging = msgspec.structs.replace(logging, spec=msgspec.structs.replace(logging.spec, descriptor=content))
    async with catalog(logging) as it:
        await it.world.offer(builders.release("logging", regular="1.0.0", spec=release))
        await it.ask(module="logging")
        await it.trust(key=public())
        await it.verify("logging-1.0.0")
        assert (it.offers.current().template("logging", "1.0.0") is not None) is offered


async def test_template_that_gets_a_link_is_refused_at_once() -> None:
    nothing = sign({"component": descriptor()["component"] | {"resources": []}}, KEY)
    link = ModuleResource(name="rawManifest", link="https://example.com/x.yaml")
    async with catalog(template(nothing), key=public()) as it:
        await it.verify()
        assert it.component().layers == {}
        await it.world.offer(template(nothing, resources=(link,)))
        await it.world.sync_caches()
        assert "behind a link" in it.refusal()


async def test_verdict_by_the_keys_of_another_module_or_secret_does_not_count() -> None:
    async with catalog(template(SIGNED), key=public()) as it:
        await it.verify()
        assert it.component().name == COMPONENT
        await it.ask(secret="others")
        await it.world.sync_caches()
        assert "is being verified" in it.refusal()


async def test_descriptor_that_changes_in_the_registry_is_refused_until_it_is_verified() -> None:
    registry = Registry(SIGNED)
    async with catalog(template({}), registry, key=public()) as it:
        await it.look_up()
        await it.verify()
        assert it.component().layers == {"raw-manifest": LAYER}
        lookups = it.offers.lookups
        assert lookups is not None
        found = lookups.found(template({}))
        assert found is not None
        changed = replace(found, descriptor=msgspec.Raw(msgspec.json.encode(descriptor(layer=IMAGE))))
        templates = (template({}),)
        verified, refused = it.verifications.of(templates, {TEMPLATE: changed.descriptor})
        assert (verified, [*refused]) == ({}, [TEMPLATE])
        verified, refused = it.verifications.of(templates, {TEMPLATE: found.descriptor})
        assert ([*verified], refused) == ([TEMPLATE], {})


async def test_warn_reports_and_installs() -> None:
    async with catalog(template(descriptor())) as it:
        await it.ask("warn")
        await it.trust(key=public())
        await it.verify()
        assert it.component().layers == {"raw-manifest": LAYER}
        condition = await it.condition()
        assert condition is not None
        assert condition.status == "False"


async def test_module_without_a_policy_needs_no_signature_and_has_no_condition() -> None:
    async with catalog(template(descriptor())) as it:
        await it.world.sync_caches()
        await it.verify()
        assert it.component().layers == {"raw-manifest": LAYER}
        assert await it.condition() is None


async def test_policy_that_asks_no_more_withdraws_the_verdict() -> None:
    async with catalog(template(descriptor())) as it, it.world.running():
        await it.ask()
        await eventually(lambda: it.published)
        assert "there is no Secret kcp-system/signers" in it.refusal()
        await it.ask("off")

        async def withdrawn() -> bool:
            return await it.condition() is None

        await eventually(withdrawn)
        assert it.component().layers == {"raw-manifest": LAYER}


async def test_change_of_the_keys_is_in_force_at_once() -> None:
    async with catalog(template(SIGNED)) as it, it.world.running():
        await it.ask()
        await eventually(lambda: it.published)
        assert "there is no Secret" in it.refusal()
        await it.trust(key=public())
        await eventually(lambda: len(it.published) == 2)
        assert it.component().name == COMPONENT
        await it.trust(key=public(ANOTHER_KEY))
        await eventually(lambda: len(it.published) == 3)
        assert "not by any of the trusted keys" in it.refusal()
        await it.trust(key=b"text")
        await eventually(lambda: len(it.published) == 4)
        assert "Secret kcp-system/signers: key is not PEM" in it.refusal()


async def test_descriptor_that_changes_is_refused_until_it_is_verified() -> None:
    async with catalog(template(SIGNED), key=public()) as it:
        await it.verify()
        assert it.component().name == COMPONENT
        await it.world.offer(template(descriptor(layer=IMAGE)))
        await it.world.sync_caches()
        assert "is being verified" in it.refusal()


async def test_certificate_that_expires_is_noticed_at_the_interval() -> None:
    async with catalog(template(SIGNED)) as it:
        await it.ask()
        await it.trust(cert=certificate(it.world.clock.now() + timedelta(hours=1)))
        await it.verify()
        assert it.component().name == COMPONENT
        it.world.clock.advance(3600 + 1)
        await it.verify()
        assert "cert expired at" in it.refusal()


async def test_component_that_cosign_signed_is_installed_and_asked_for_once() -> None:
    registry = Registry(signed=(cosigned(),))
    async with catalog(template({}), registry, cosign=public(COSIGN_KEY)) as it:
        await it.look_up()
        for _ in range(2):
            await it.verify()
        assert it.component().images == (f"registry.example.com/telemetry:1.0.0@{IMAGE}",)
        assert registry.asked == [ARTIFACT]


@pytest.mark.parametrize(
    ("registry", "problem"),
    [
        (Registry(), "no signature of sha256:3"),
        (Registry(signed=(cosigned(IMAGE),)), "cosign signed"),
        (Registry(why="the registry is on fire"), "the registry is on fire"),
    ],
)
async def test_component_without_a_signature_by_cosign_is_refused(registry: Registry, problem: str) -> None:
    async with catalog(template({}), registry, cosign=public(COSIGN_KEY)) as it:
        await it.look_up()
        result = await it.verify()
        assert problem in it.refusal()
        assert result.requeue_after == (7.0 if registry.why else RECHECK_SECONDS)


async def test_component_with_a_signature_of_its_own_needs_none_by_cosign() -> None:
    registry = Registry(SIGNED)
    async with catalog(template({}), registry, key=public()) as it:
        await it.look_up()
        await it.verify()
        assert it.component().name == COMPONENT
        assert registry.asked == []


async def test_verdict_that_can_not_be_recorded_is_in_force_and_recorded_later() -> None:
    async with catalog(template(SIGNED), key=public()) as it:
        refuse = Refuse(lambda request: request.subresource == "status" and request.is_write)
        with it.world.cluster("kcp").ruled_by(refuse):
            assert (await it.verify()).requeue_after == WRITE_AGAIN_SECONDS
            assert it.component().name == COMPONENT
        await it.verify()
        assert await it.condition() is not None


async def test_start_verifies_before_anything_is_installed() -> None:
    async with catalog(template(SIGNED), key=public()) as it, it.world.running():
        await eventually(lambda: it.world.manager.working)
        assert it.component().name == COMPONENT


async def test_component_that_cosign_signs_again_after_a_rotation_of_the_key_is_installed() -> None:
    registry = Registry(signed=(cosigned(),))
    new = ec.generate_private_key(ec.SECP256R1())
    async with catalog(template({}), registry, cosign=public(COSIGN_KEY)) as it:
        await it.look_up()
        await it.verify()
        assert it.component().name == COMPONENT
        await it.trust(cosign=public(new))
        await it.verify()
        assert "no signature of sha256:3" in it.refusal()
        payload = cosigned().payload
        registry.signed = (*registry.signed, Cosigned(payload, new.sign(payload, ec.ECDSA(hashes.SHA256()))))
        await it.verify()
        assert it.component().name == COMPONENT


async def test_policy_that_only_warns_from_now_on_has_refused_modules_installed_at_once() -> None:
    async with catalog(template(descriptor())) as it, it.world.running():
        await it.ask()
        await it.trust(key=public())
        await eventually(lambda: DescriptorFound(KCP, TEMPLATE) in it.published and "no signature" in it.refusal())
        await it.world.kcp.list(MODULE_TEMPLATES, KCP)
        it.published.clear()
        await it.ask("warn")
        await eventually(lambda: it.published == [DescriptorFound(KCP, TEMPLATE)])
