"""The authorities and certificates in their Secrets on a real API server, with several replicas at work at once."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest_asyncio
from msgspec.structs import replace

from kube_runtime import Client, Conflict, ObjectKey
from kube_runtime.informer.cache import Cache
from kyma_certs import Algorithm, CAs, LeafRequest, RotationRules, Step, describe, issue, issued_by, key_of
from lifecycle_manager.resources import SECRETS
from lifecycle_manager.skr_webhook import (
    ROTATE,
    TRUST_RECORD,
    WATCHER_RECORD,
    AuthorityRotation,
    AuthorityStore,
    CertificateStore,
    LeafRules,
)
from lifecycle_manager_api import Kyma, names
from tests import builders
from tests.integration.skr_webhook.kymas import have_control_plane, register

REPLICAS = 5


class Clock:
    """A clock that goes when it is told to."""

    def __init__(self) -> None:
        self.now = datetime.now(UTC).replace(microsecond=0)

    def __call__(self) -> datetime:
        return self.now


@pytest_asyncio.fixture
async def replicas(client: Client, namespace: str) -> AsyncIterator[list[AuthorityStore]]:
    """Stores of several replicas that share a Secret and a clock."""
    clock = Clock()
    yield [AuthorityStore(client, clock, namespace=namespace) for _ in range(REPLICAS)]


async def at_once(attempts: Iterable[Awaitable[Any]]) -> list[Any]:
    """Try all at the same time; give what came of each."""
    return await asyncio.gather(*attempts, return_exceptions=True)


def cache_of(*kymas: Kyma) -> Any:
    cache: Cache[Kyma] = Cache({})
    for kyma in kymas:
        cache.put(ObjectKey(names.KCP_NAMESPACE, kyma.metadata.name), kyma)
    return SimpleNamespace(cache=cache)


async def test_replicas_that_start_at_once_make_one_authority(replicas: list[AuthorityStore]) -> None:
    found = await at_once(store.ensure() for store in replicas)
    assert len({each.authorities.signing.certificate_pem for each in found}) == 1


async def test_step_is_taken_by_one_replica(replicas: list[AuthorityStore]) -> None:
    seen = await replicas[0].ensure()
    for step in (Step.ANNOUNCE, Step.NOTE_SPREAD, Step.SWITCH, Step.NOTE_SPREAD, Step.DROP):
        came_of_it = await at_once([store.take(step, seen) for store in replicas])
        assert sorted(isinstance(each, Conflict) for each in came_of_it) == [False] + [True] * (REPLICAS - 1)
        (seen,) = (each for each in came_of_it if not isinstance(each, Conflict))
        assert (await replicas[0].ensure()).authorities == seen.authorities
    assert not seen.authorities.rotating


async def test_rotation_goes_through_all_its_phases_and_every_replica_follows(replicas: list[AuthorityStore]) -> None:
    clock: Any = replicas[0].clock
    adopted: list[list[CAs]] = [[] for _ in replicas]
    at_first = (await replicas[0].ensure()).authorities
    kyma = noted(at_first)
    kymas = cache_of(kyma)
    rotations = [
        AuthorityRotation(
            store, kymas, clock, at_first, RotationRules(grace=timedelta(minutes=10)), adopt=remembering(list_)
        )
        for store, list_ in zip(replicas, adopted, strict=True)
    ]

    async def round_of_all() -> CAs:
        came_of_it = await at_once(it.reconcile(it.key) for it in rotations)
        assert not [each for each in came_of_it if isinstance(each, BaseException)]
        for rotation in rotations:
            await rotation.reconcile(rotation.key)
        (in_force,) = {each.current.fingerprint: each.current for each in rotations}.values()
        return in_force

    await replicas[0].kcp.merge_patch(
        SECRETS, replicas[0].name, {"metadata": {"annotations": {ROTATE: "now"}}}, replicas[0].namespace
    )
    phases = [at_first]
    for _ in range(2):
        in_force = await round_of_all()
        assert in_force.fingerprint != phases[-1].fingerprint
        clock.now += timedelta(hours=1)
        assert (await round_of_all()).fingerprint == in_force.fingerprint, "went on although a cluster lags behind"
        kymas.cache.put(ObjectKey(names.KCP_NAMESPACE, "demo"), noted(in_force))
        await round_of_all()
        clock.now += timedelta(minutes=9)
        assert (await round_of_all()).fingerprint == in_force.fingerprint, "went on before the grace time was over"
        clock.now += timedelta(minutes=1)
        phases.append(in_force)
    last = await round_of_all()
    announced, switched = phases[1:]
    assert announced.signing == at_first.signing
    assert announced.following == switched.signing == last.signing
    assert switched.former_pem == at_first.signing.certificate_pem
    assert not last.rotating
    assert all(each[-1].fingerprint == last.fingerprint for each in adopted)


async def test_what_could_not_be_adopted_is_adopted_with_the_next_attempt(replicas: list[AuthorityStore]) -> None:
    attempts: list[CAs] = []

    async def adopt(authorities: CAs) -> None:
        attempts.append(authorities)
        if len(attempts) == 1:
            raise OSError("no space left")

    store = replicas[0]
    in_force = (await store.ensure()).authorities
    rotation = AuthorityRotation(store, cache_of(), store.clock, in_force, adopt=adopt)
    assert isinstance((await at_once([rotation.reconcile(rotation.key)]))[0], OSError)
    for _ in range(2):
        await rotation.reconcile(rotation.key)
    assert len(attempts) == 2


async def test_replicas_that_issue_at_once_agree_on_one_certificate(client: Client) -> None:
    clock, kyma = Clock(), await register(client, "agreeing")
    authorities = CAs((await AuthorityStore(client, clock, name="agreeing").ensure()).authorities.signing)
    stores = [CertificateStore(client, SimpleNamespace(cache=Cache({})), clock) for _ in range(REPLICAS)]  # type: ignore[arg-type]
    pairs = await at_once(store.ensure(kyma, authorities) for store in stores)
    assert len(set(pairs)) == 1
    assert issued_by(pairs[0].certificate_pem, authorities.signing.certificate_pem)


async def test_certificate_follows_its_authority_its_revocation_and_its_names(client: Client) -> None:
    clock = Clock()
    authority = AuthorityStore(client, clock, name="following")
    cache: Any = Cache({})
    store = CertificateStore(client, SimpleNamespace(cache=cache), clock)  # type: ignore[arg-type]
    registered = await register(client, "following")

    async def certificate(authorities: CAs, **annotations: str) -> bytes:
        metadata = replace(registered.metadata, annotations=annotations)
        pair = await store.ensure(replace(registered, metadata=metadata), authorities)
        key = ObjectKey(names.KCP_NAMESPACE, f"{metadata.name}-webhook-tls")
        cache.put(key, await client.get(SECRETS, key.name, key.namespace))
        return pair.certificate_pem

    stored = await authority.ensure()
    first = await certificate(stored.authorities)
    stored = await authority.take(Step.ANNOUNCE, stored)
    assert await certificate(stored.authorities) == first
    stored = await authority.take(Step.SWITCH, stored)
    second = await certificate(stored.authorities)
    assert issued_by(second, stored.authorities.signing.certificate_pem)
    assert await certificate(stored.authorities) == second
    revocation = {names.REVOKED_BEFORE: clock.now.isoformat()}
    third = await certificate(stored.authorities, **revocation)
    assert describe(third).not_before == clock.now
    assert await certificate(stored.authorities, **revocation) == third
    fourth = await certificate(stored.authorities, **revocation, **{names.SKR_DOMAIN: "skr.example"})
    assert "skr.example" in describe(fourth).dns_names


async def test_replica_that_is_a_step_behind_leaves_the_others_work_alone(client: Client) -> None:
    await have_control_plane(client)
    clock = Clock()
    authority = AuthorityStore(client, clock, name="behind")
    behind = (await authority.take(Step.ANNOUNCE, await authority.ensure())).authorities
    assert behind.following is not None
    ahead = issue(behind.following, LeafRequest(common_name="runtime"), now=clock())
    assert behind.issuer_stays(ahead.certificate_pem)


async def test_certificates_of_every_kind_of_key_are_issued(client: Client) -> None:
    await have_control_plane(client)
    clock = Clock()
    authorities = (await AuthorityStore(client, clock, name="kinds").ensure()).authorities
    for algorithm in Algorithm:
        secrets: Any = SimpleNamespace(cache=Cache({}))
        store = CertificateStore(client, secrets, clock, LeafRules(algorithm=algorithm, rsa_key_size=2048))
        kyma = await register(client, f"kind-{algorithm.value.lower().replace('_', '-')}")
        assert describe((await store.ensure(kyma, authorities)).certificate_pem).common_name == kyma.metadata.name


async def test_certificate_of_another_kind_of_key_than_is_wanted_is_replaced(client: Client) -> None:
    clock, kyma = Clock(), await register(client, "other-kind")
    authorities = (await AuthorityStore(client, clock, name="other-kind").ensure()).authorities
    cache: Any = Cache({})
    secrets: Any = SimpleNamespace(cache=cache)
    kinds = []
    for algorithm in (Algorithm.ECDSA_P256, Algorithm.ED25519):
        store = CertificateStore(client, secrets, clock, LeafRules(algorithm=algorithm))
        kinds.append(key_of((await store.ensure(kyma, authorities)).certificate_pem)[0])
        key = ObjectKey(names.KCP_NAMESPACE, f"{kyma.metadata.name}-webhook-tls")
        cache.put(key, await client.get(SECRETS, key.name, key.namespace))
    assert kinds == ["ECDSA", "ED25519"]


def noted(authorities: CAs) -> Kyma:
    """Return a Kyma whose cluster has what was in force."""
    return builders.kyma("demo", annotations={WATCHER_RECORD: "digest", TRUST_RECORD: authorities.fingerprint})


def remembering(adopted: list[CAs]) -> Callable[[CAs], Awaitable[None]]:
    async def adopt(authorities: CAs) -> None:
        adopted.append(authorities)

    return adopt
