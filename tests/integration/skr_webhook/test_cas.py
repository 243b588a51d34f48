"""The CAs and certificates in their Secrets on a real API server, with several replicas at work at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest_asyncio
from msgspec.structs import replace

from kube_runtime import Cache, Causes, Client, Conflict, Manager, ObjectKey, Result
from kyma_certs import Algorithm, CAs, RotationRules, RotationStep, describe, issued_by, key_of
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.contract.signals import CAsChanged
from lifecycle_manager.options.watcher import LeafRules
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation
from lifecycle_manager.watcher_certificates.ca_store import ROTATE, CAStore
from lifecycle_manager.watcher_certificates.certificates import CertificateMemory, CertificateStore
from lifecycle_manager_api import Kyma, names
from tests import builders
from tests.clocks import ManualClock
from tests.integration.skr_webhook.kymas import register

REPLICAS = 5
KEY = ObjectKey(names.KCP_NAMESPACE, "demo")


def present() -> ManualClock:
    return ManualClock(datetime.now(UTC).replace(microsecond=0))


@pytest_asyncio.fixture
async def replicas(client: Client, namespace: str) -> AsyncIterator[list[CAStore]]:
    """Stores of several replicas that share a Secret and a clock."""
    clock = present()
    yield [CAStore(client, clock, namespace=namespace) for _ in range(REPLICAS)]


async def at_once(attempts: Iterable[Awaitable[Any]]) -> list[Any]:
    """Try all at the same time; give what came of each."""
    return await asyncio.gather(*attempts, return_exceptions=True)


def informer_of(cache: Cache[Any]) -> Any:
    return SimpleNamespace(get=cache.get, list=cache.list, wrote=lambda _: None)


async def test_replicas_that_start_at_once_create_one_ca(replicas: list[CAStore]) -> None:
    found = await at_once(store.ensure() for store in replicas)
    assert len({each.cas.signing.certificate_pem for each in found}) == 1


async def test_step_is_taken_by_one_replica(replicas: list[CAStore]) -> None:
    seen = await replicas[0].ensure()
    for step in (
        RotationStep.ANNOUNCE,
        RotationStep.NOTE_SPREAD,
        RotationStep.SWITCH,
        RotationStep.NOTE_SPREAD,
        RotationStep.DROP,
    ):
        results = await at_once([store.take(step, seen) for store in replicas])
        assert sorted(isinstance(each, Conflict) for each in results) == [False] + [True] * (REPLICAS - 1)
        (seen,) = (each for each in results if not isinstance(each, Conflict))
        assert (await replicas[0].ensure()).cas == seen.cas
    assert not seen.cas.rotating


async def test_rotation_goes_through_all_its_phases_and_every_replica_follows(
    client: Client, replicas: list[CAStore]
) -> None:
    clock: Any = replicas[0].clock
    at_first = (await replicas[0].ensure()).cas
    cache: Cache[Kyma] = Cache()
    cache.put(KEY, recorded(at_first))
    followed: list[list[str]] = [[] for _ in replicas]
    rules = RotationRules(grace=timedelta(minutes=10))
    rotations = [following(client, store, cache, rules, seen) for store, seen in zip(replicas, followed, strict=True)]
    for rotation in rotations:
        await rotation.start()

    async def round_of_all() -> CAs:
        results = await at_once(reconcile(each) for each in rotations)
        assert not [each for each in results if isinstance(each, BaseException)]
        for rotation in rotations:
            await reconcile(rotation)
        (in_force,) = {each.current.fingerprint: each.current for each in rotations}.values()
        return in_force

    await replicas[0].kcp.merge_patch(
        SECRETS, replicas[0].name, {"metadata": {"annotations": {ROTATE: "now"}}}, replicas[0].namespace
    )
    phases = [at_first]
    for _ in range(2):
        in_force = await round_of_all()
        assert in_force.fingerprint != phases[-1].fingerprint
        clock.advance(3600)
        assert (await round_of_all()).fingerprint == in_force.fingerprint, "went on although a cluster is behind"
        cache.put(KEY, recorded(in_force))
        await round_of_all()
        clock.advance(540)
        assert (await round_of_all()).fingerprint == in_force.fingerprint, "went on before the grace time was over"
        clock.advance(60)
        phases.append(in_force)
    last = await round_of_all()
    announced, switched = phases[1:]
    assert announced.signing == at_first.signing
    assert announced.following == switched.signing == last.signing
    assert switched.former_pem == at_first.signing.certificate_pem
    assert not last.rotating
    assert all(each[-1] == last.fingerprint for each in followed)


async def test_replicas_that_issue_at_once_agree_on_one_certificate(client: Client) -> None:
    clock, kyma = present(), await register(client, "agreeing")
    cas = CAs((await CAStore(client, clock, name="agreeing").ensure()).cas.signing)
    stores = [CertificateStore(client, informer_of(Cache()), clock) for _ in range(REPLICAS)]
    pairs = await at_once(store.ensure(kyma, cas, CertificateMemory()) for store in stores)
    assert len(set(pairs)) == 1
    assert issued_by(pairs[0].certificate_pem, cas.signing.certificate_pem)


async def test_certificate_follows_its_ca_its_revocation_and_its_names(client: Client) -> None:
    clock = present()
    store_of_cas = CAStore(client, clock, name="following")
    cache: Any = Cache()
    store = CertificateStore(client, informer_of(cache), clock)
    registered = await register(client, "following")

    async def certificate(cas: CAs, **annotations: str) -> bytes:
        metadata = replace(registered.metadata, annotations=annotations)
        pair = await store.ensure(replace(registered, metadata=metadata), cas, CertificateMemory())
        key = ObjectKey(names.KCP_NAMESPACE, f"{metadata.name}-webhook-tls")
        cache.put(key, await client.get(SECRETS, key.name, key.namespace))
        return pair.certificate_pem

    stored = await store_of_cas.ensure()
    first = await certificate(stored.cas)
    stored = await store_of_cas.take(RotationStep.ANNOUNCE, stored)
    assert await certificate(stored.cas) == first
    stored = await store_of_cas.take(RotationStep.SWITCH, stored)
    second = await certificate(stored.cas)
    assert issued_by(second, stored.cas.signing.certificate_pem)
    assert await certificate(stored.cas) == second
    revocation = {names.REVOKED_BEFORE: clock.now().isoformat()}
    third = await certificate(stored.cas, **revocation)
    assert describe(third).not_before == clock.now()
    assert await certificate(stored.cas, **revocation) == third
    fourth = await certificate(stored.cas, **revocation, **{names.SKR_DOMAIN: "skr.example"})
    assert "skr.example" in describe(fourth).dns_names


async def test_certificate_of_a_clock_that_was_wrong_is_issued_again(client: Client) -> None:
    clock, kyma = present(), await register(client, "wrong-clock")
    cas = (await CAStore(client, clock, name="wrong-clock").ensure()).cas
    cache: Any = Cache()
    store = CertificateStore(client, informer_of(cache), clock)
    key = ObjectKey(names.KCP_NAMESPACE, f"{kyma.metadata.name}-webhook-tls")
    clock.jump(86_400)
    await store.ensure(kyma, cas, CertificateMemory())
    cache.put(key, await client.get(SECRETS, key.name, key.namespace))
    clock.jump(-86_400)
    pair = await store.ensure(kyma, cas, CertificateMemory())
    assert describe(pair.certificate_pem).not_before <= clock.now()


async def test_certificate_of_another_kind_of_key_than_is_wanted_is_replaced(client: Client) -> None:
    clock, kyma = present(), await register(client, "other-kind")
    cas = (await CAStore(client, clock, name="other-kind").ensure()).cas
    cache: Any = Cache()
    secrets = informer_of(cache)
    kinds = []
    for algorithm in Algorithm:
        store = CertificateStore(client, secrets, clock, LeafRules(algorithm=algorithm.value, rsa_key_size=2048))
        kinds.append(key_of((await store.ensure(kyma, cas, CertificateMemory())).certificate_pem)[0])
        key = ObjectKey(names.KCP_NAMESPACE, f"{kyma.metadata.name}-webhook-tls")
        cache.put(key, await client.get(SECRETS, key.name, key.namespace))
    assert kinds == ["ECDSA", "RSA", "ED25519"]


def recorded(cas: CAs) -> Kyma:
    """Return a Kyma whose cluster has these CAs."""
    return builders.kyma("demo", records={"watcher": "digest", "trust": cas.fingerprint})


def following(client: Client, store: CAStore, kymas: Cache[Kyma], rules: RotationRules, seen: list[str]) -> CARotation:
    """Return the rotation of a replica; each set of CAs that it publishes is added to `seen`."""
    manager = Manager(client, clock=store.clock)
    rotation = CARotation(manager, store, informer_of(kymas), informer_of(Cache()), rules)
    manager.on(CAsChanged, lambda _: seen.append(rotation.current.fingerprint))
    return rotation


async def reconcile(rotation: CARotation) -> Result:
    return await rotation.reconcile(rotation.store.key, Causes(), None)
