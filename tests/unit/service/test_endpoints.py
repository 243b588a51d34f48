"""The servers of a replica: their certificates follow the CAs, and the API server trusts those."""

import asyncio
import base64
import ssl
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from kube_runtime import SYSTEM_CLOCK
from kube_simulation import ApiRequest, Refuse
from kyma_certs import KeyPair, LeafRequest, RotationRules, issue, issued_by
from kyma_local.ports import free_port
from lifecycle_manager import admission, endpoints
from lifecycle_manager.contract.dns_names import REPLICA_HOST
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.endpoints import Endpoints
from lifecycle_manager.options.endpoints import EndpointSettings
from lifecycle_manager.process.telemetry import ChangeLatency
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation, setup_ca
from lifecycle_manager.watcher_certificates.ca_store import ROTATE, CAStore
from tests.waiting import eventually, is_gone
from tests.world import KCP, NO_API, World, open_world


@asynccontextmanager
async def serving(folder: Path, *, webhooks: bool = False) -> AsyncGenerator[tuple[World, CARotation], None]:
    """Run a Manager with the servers of a replica that is alone."""
    settings = EndpointSettings(
        events=("127.0.0.1", free_port()), enable_webhooks=webhooks, admission=("127.0.0.1", free_port())
    )
    async with open_world() as world:
        cas = setup_ca(world.manager, CAStore(world.kcp, world.clock), RotationRules())
        endpoints.setup(
            world.manager,
            world.kcp,
            folder,
            cas=cas,
            validators={},
            latency=ChangeLatency(CollectorRegistry(), world.clock),
            settings=settings,
        )
        async with world.running():
            await eventually(lambda: world.manager.working)
            yield world, cas


async def announce_ca(world: World, cas: CARotation) -> None:
    before = cas.current.fingerprint
    annotations = {"metadata": {"annotations": {ROTATE: "now"}}}
    await world.kcp.merge_patch(SECRETS, cas.store.name, annotations, KCP)
    await eventually(lambda: cas.current.fingerprint != before)


async def has_webhook(world: World) -> bool:
    return not await is_gone(world.kcp.get(admission.ADMISSION_WEBHOOKS, "lifecycle-manager"))


async def trusted_by_api_server(world: World) -> bytes:
    configuration = await world.kcp.get(admission.ADMISSION_WEBHOOKS, "lifecycle-manager")
    return base64.b64decode(configuration["webhooks"][0]["clientConfig"]["caBundle"])


async def test_certificates_are_issued_by_the_ca_before_anything_is_served(tmp_path: Path) -> None:
    async with serving(tmp_path) as (_, cas):
        for name in ("events", "admission", "replicas"):
            certificate = (tmp_path / name / "tls.crt").read_bytes()
            assert issued_by(certificate, cas.current.signing.certificate_pem)


async def test_other_cas_are_trusted_at_once_by_servers_and_by_the_api_server(tmp_path: Path) -> None:
    async with serving(tmp_path, webhooks=True) as (world, cas):

        async def trusted() -> bool:
            return await trusted_by_api_server(world) == cas.current.trusted

        await eventually(lambda: has_webhook(world))
        await announce_ca(world, cas)
        await eventually(trusted)
        await eventually(lambda: (tmp_path / "events" / "ca.crt").read_bytes() == cas.current.trusted)


NEVER = {"name": "never", "expression": "false"}
SELECTOR: dict[str, Any] = {"matchLabels": {"nothing": "matches"}}


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda _: None, id="deleted"),
        pytest.param(lambda _: [], id="without webhooks"),
        pytest.param(lambda hooks: hooks[1:], id="without one of them"),
        pytest.param(lambda hooks: _each(hooks, clientConfig=hooks[0]["clientConfig"] | {"caBundle": ""}), id="no CA"),
        pytest.param(lambda hooks: _each(hooks, failurePolicy="Fail"), id="another failure policy"),
        pytest.param(lambda hooks: _each(hooks, rules=[]), id="without rules"),
        pytest.param(lambda hooks: _each(hooks, namespaceSelector=SELECTOR), id="a selector of namespaces"),
        pytest.param(lambda hooks: _each(hooks, objectSelector=SELECTOR), id="a selector of objects"),
        pytest.param(lambda hooks: _each(hooks, matchConditions=[NEVER]), id="a condition"),
        pytest.param(lambda hooks: [*hooks, hooks[0] | {"name": "another.example.com"}], id="one more"),
    ],
)
async def test_webhook_configuration_that_somebody_changes_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[list[Any]], list[Any] | None]
) -> None:
    monkeypatch.setattr(endpoints, "CHECK_SECONDS", 0.05)
    async with serving(tmp_path, webhooks=True) as (world, _):
        await eventually(lambda: has_webhook(world))
        wanted = await _webhooks(world)
        changed = change(wanted)
        if changed is None:
            await world.kcp.delete(admission.ADMISSION_WEBHOOKS, "lifecycle-manager")
        else:
            await world.kcp.merge_patch(
                admission.ADMISSION_WEBHOOKS, "lifecycle-manager", {"webhooks": changed}, field_manager="somebody"
            )

        async def is_restored() -> bool:
            return await has_webhook(world) and await _webhooks(world) == wanted

        await eventually(is_restored)


async def test_webhook_configuration_that_is_as_it_should_be_is_not_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(endpoints, "CHECK_SECONDS", 0.05)
    seen: list[ApiRequest] = []

    def is_webhook(request: ApiRequest) -> bool:
        if "validatingwebhookconfigurations" in request.path:
            seen.append(request)
        return False

    async with serving(tmp_path, webhooks=True) as (world, _):
        await eventually(lambda: has_webhook(world))
        with world.cluster("kcp").ruled_by(Refuse(is_webhook, refused=NO_API)):
            await eventually(lambda: len(seen) >= 5)
        assert not [each for each in seen if each.is_write]


async def _webhooks(world: World) -> list[Any]:
    configuration = await world.kcp.get(admission.ADMISSION_WEBHOOKS, "lifecycle-manager")
    return list(configuration.get("webhooks") or [])


def _each(hooks: list[Any], **changed: Any) -> list[Any]:
    return [each | changed for each in hooks]


async def test_renewal_that_fails_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endpoints, "RETRY_SECONDS", 0.01)
    async with serving(tmp_path, webhooks=True) as (world, cas):
        await eventually(lambda: has_webhook(world))

        def is_webhook(request: ApiRequest) -> bool:
            return request.is_write and "validatingwebhookconfigurations" in request.path

        with world.cluster("kcp").ruled_by(Refuse(is_webhook, refused=NO_API)):
            before = world.requests
            await announce_ca(world, cas)
            await eventually(lambda: world.requests >= before + 10)

        async def trusted() -> bool:
            return await trusted_by_api_server(world) == cas.current.trusted

        await eventually(trusted)


async def test_certificates_of_watchers_are_not_let_in_at_the_port_of_replicas(tmp_path: Path) -> None:
    """A connection that is closed at once holds no place of replicas: nothing is sent over these."""
    port = free_port()
    settings = EndpointSettings(replicas=("127.0.0.1", port))
    async with open_world() as world, asyncio.TaskGroup() as tasks:
        world.clock.time = SYSTEM_CLOCK.now()  # TLS compares the certificates with it
        cas = setup_ca(world.manager, CAStore(world.kcp, world.clock), RotationRules())
        servers = Endpoints(world.manager, world.kcp, tmp_path, cas=cas, settings=settings)
        await cas.start()
        await servers.write_certificates()
        server = tasks.create_task(servers.serve_replicas(cast("Any", None), cast("Any", None)))

        async def connection(pair: KeyPair) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
            (tmp_path / "client.pem").write_bytes(pair.certificate_pem + pair.key_pem)
            context = ssl.create_default_context(cadata=cas.current.trusted.decode())
            context.load_cert_chain(tmp_path / "client.pem")
            return await asyncio.open_connection("127.0.0.1", port, ssl=context, server_hostname=REPLICA_HOST)

        async def is_served() -> bool:
            with suppress(OSError):
                _, writer = await connection(certificate(cas, REPLICA_HOST))
                writer.close()
                return True
            return False

        await eventually(is_served)
        idle = [await connection(certificate(cas, name)) for name in (REPLICA_HOST, "a.example")]
        ends = [asyncio.create_task(wait_for_end(reader)) for reader, _ in idle]
        await eventually(ends[1].done)
        assert not ends[0].done()
        for _, writer in idle:
            writer.close()
        for each in (*ends, server):
            each.cancel()


def certificate(cas: CARotation, host: str) -> KeyPair:
    request = LeafRequest(common_name="runtime", dns_names=(host,))
    return issue(cas.current.signing, request, now=SYSTEM_CLOCK.now())


async def wait_for_end(reader: asyncio.StreamReader) -> None:
    with suppress(OSError):
        await reader.read()
