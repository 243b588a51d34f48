"""The rotation of CAs: triggered by its Secret, it waits for the clusters that do not have the CAs in force yet."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtensionOID

from kube_runtime import Client, Manager
from kyma_certs import CLOCK_SKEW, CAs, LeafRequest, RotationRules, create_ca, describe, issue
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.watcher_certificates.ca_rotation import ROTATING_SECONDS, CARotation, setup_ca
from lifecycle_manager.watcher_certificates.ca_store import ROTATE, CASecretInvalid, CAStore
from lifecycle_manager.watcher_certificates.tls_secret import encoded, tls_secret_document
from tests.waiting import eventually
from tests.world import KCP, World, open_world


@asynccontextmanager
async def rotation_in(world: World) -> AsyncGenerator[tuple[CARotation, Manager], None]:
    rotation = setup_ca(world.manager, CAStore(world.kcp, world.clock), RotationRules())
    await rotation.start()
    yield rotation, world.manager


async def request_rotation(world: World, store: CAStore) -> None:
    annotations = {"metadata": {"annotations": {ROTATE: "now"}}}
    await world.kcp.merge_patch(SECRETS, store.name, annotations, KCP)


async def record(world: World, name: str, trust: str) -> None:
    records = {"status": {"records": {"watcher": "digest", "trust": trust}}}
    await world.kcp.merge_patch(KYMAS, name, records, KCP, subresource="status")


async def test_cas_are_unknown_before_the_start(world: World) -> None:
    rotation = setup_ca(world.manager, CAStore(world.kcp, world.clock), RotationRules())
    with pytest.raises(RuntimeError):
        _ = rotation.current


async def test_change_and_deletion_of_the_secret_are_followed_at_once(world: World) -> None:
    store = CAStore(world.kcp, world.clock)
    changes: list[CAsChanged] = []
    rotation = setup_ca(world.manager, store, RotationRules())
    world.manager.on(CAsChanged, changes.append)
    async with world.running():
        await eventually(lambda: world.manager.working)
        first = rotation.current
        assert changes == [], "the CAs of the start are no change"
        await request_rotation(world, store)
        await eventually(lambda: rotation.current.following is not None)
        await world.kcp.delete(SECRETS, store.name, KCP)
        await eventually(lambda: rotation.current.signing not in (first.signing, first.following))
        assert len(changes) >= 2


async def test_clusters_without_the_cas_in_force_hold_a_rotation_up() -> None:
    async with open_world() as world, rotation_in(world) as (rotation, _):
        for name in ("has-it", "behind", "without-watcher"):
            await world.register(name)
        await record(world, "has-it", rotation.current.fingerprint)
        await record(world, "behind", "former")
        await world.sync_caches()
        assert rotation.clusters_behind() == ["behind"]


async def test_adopted_ca_is_replaced_once_every_cluster_has_this_watcher() -> None:
    async with open_world() as world:
        former = CAs(create_ca("former", lifetime=timedelta(days=3650), now=world.clock.now()))

        async def adopts(_kcp: Client, _namespace: str) -> CAs:
            return former

        store = CAStore(world.kcp, world.clock, adopts=adopts, former_namespace="istio-system")
        rotation = setup_ca(world.manager, store, RotationRules())
        await rotation.start()
        await world.register("behind")
        await world.sync_caches()
        await world.manager.controllers["ca"].reconcile_now(store.key)
        assert rotation.current.following is None
        await record(world, "behind", rotation.current.fingerprint)
        await world.sync_caches()
        await world.manager.controllers["ca"].reconcile_now(store.key)
        assert rotation.current.following is not None


async def test_secret_of_an_administrator_or_cert_manager_is_followed_at_once(world: World) -> None:
    store, ca = CAStore(world.kcp, world.clock), create_ca("own", lifetime=timedelta(days=3650), now=world.clock.now())
    document = tls_secret_document(store.name, KCP, ca, trust=ca.certificate_pem)
    await world.kcp.create(SECRETS, document, KCP, field_manager="cert-manager")
    rotation = setup_ca(world.manager, store, RotationRules())
    async with world.running():
        await eventually(lambda: world.manager.working)
        assert rotation.current.signing == ca
        await request_rotation(world, store)
        await eventually(lambda: rotation.current.following is not None)


TIMES = (datetime(2026, 1, 1, tzinfo=UTC), datetime(2036, 1, 1, tzinfo=UTC))


def with_damaged_names() -> dict[str, str]:
    """Return a certificate of the own key whose extension can't be read."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    builder = x509.CertificateBuilder(name, name, key.public_key(), 1, *TIMES)
    names = x509.UnrecognizedExtension(ExtensionOID.SUBJECT_ALTERNATIVE_NAME, b"?")
    pem = builder.add_extension(names, critical=False).sign(key, hashes.SHA256()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return {"tls.crt": encoded(pem), "tls.key": encoded(private)}


@pytest.mark.parametrize("damaged", ["tls.crt", "tls.key", "another key", "names"])
async def test_secret_with_what_is_no_certificate_is_named(world: World, damaged: str) -> None:
    """A key of another certificate would issue certificates that nobody trusts."""
    store = CAStore(world.kcp, world.clock)
    await store.ensure()
    another = create_ca("own", lifetime=timedelta(days=3650), now=world.clock.now())
    data = {"tls.key": encoded(another.key_pem)} if damaged == "another key" else {damaged: "ZGFtYWdlZA=="}
    data = with_damaged_names() if damaged == "names" else data
    await world.kcp.merge_patch(SECRETS, store.name, {"data": data}, KCP)
    with pytest.raises(CASecretInvalid, match=f"Secret {KCP}/{store.name} has no usable tls.crt"):
        await store.ensure()


async def test_certificate_that_is_no_ca_is_refused_before_it_issues_any(world: World) -> None:
    """Neither Watchers nor the event endpoint would trust what it issued."""
    own = create_ca("own", lifetime=timedelta(days=3650), now=world.clock.now())
    leaf = issue(own, LeafRequest(common_name="server"), now=world.clock.now())
    document = tls_secret_document("klm-watcher", KCP, leaf, trust=own.certificate_pem)
    await world.kcp.create(SECRETS, document, KCP, field_manager="test")
    with pytest.raises(CASecretInvalid, match=f"Secret {KCP}/klm-watcher .* no CA's .* keyUsage keyCertSign"):
        await CAStore(world.kcp, world.clock).ensure()


async def test_ca_that_a_clock_ahead_of_time_created_is_replaced() -> None:
    async with open_world() as world:
        later = world.clock.now() + timedelta(days=2)
        ahead = create_ca("ahead", lifetime=timedelta(days=3650), now=later)
        document = tls_secret_document("klm-watcher", KCP, ahead, trust=ahead.certificate_pem)
        await world.kcp.create(SECRETS, document, KCP, field_manager="test")
        async with rotation_in(world) as (rotation, manager):
            for _ in range(6):
                await world.sync_caches()
                await manager.controllers["ca"].reconcile_now(rotation.store.key)
                world.clock.advance(601)
            assert describe(rotation.current.signing.certificate_pem).not_before < world.clock.now()
            assert not rotation.current.rotating


async def test_ca_of_cert_manager_is_not_replaced_as_its_clock_is_a_little_ahead() -> None:
    """What others issue begins at once, not some minutes before."""
    async with open_world() as world:
        begins = world.clock.now() + timedelta(seconds=2)
        ahead = create_ca("ahead", lifetime=timedelta(days=3650), now=begins + CLOCK_SKEW)
        document = tls_secret_document("klm-watcher", KCP, ahead, trust=ahead.certificate_pem)
        await world.kcp.create(SECRETS, document, KCP, field_manager="test")
        async with rotation_in(world) as (rotation, manager):
            await world.sync_caches()
            await manager.controllers["ca"].reconcile_now(rotation.store.key)
            assert not rotation.current.rotating


async def test_step_is_an_event_of_the_secret() -> None:
    async with open_world() as world, rotation_in(world) as (rotation, manager):
        await request_rotation(world, rotation.store)
        await world.sync_caches()
        await manager.controllers["ca"].reconcile_now(rotation.store.key)
        assert [reason for reason, _ in world.events] == ["CAAnnounced"]


async def test_rotation_that_waits_for_clusters_reads_nothing() -> None:
    async with open_world() as world, rotation_in(world) as (rotation, manager):
        await world.register("behind")
        await request_rotation(world, rotation.store)
        await record(world, "behind", "former")
        await world.sync_caches()
        await manager.controllers["ca"].reconcile_now(rotation.store.key)
        known = world.requests
        result = await manager.controllers["ca"].reconcile_now(rotation.store.key)
        assert (result.requeue_after, world.requests) == (ROTATING_SECONDS, known)
