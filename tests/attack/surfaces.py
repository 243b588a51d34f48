"""Where strangers' bytes come in. An attack is a sample, made from a seed; a finding is whatever it raises."""

import asyncio
import base64
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import httpx
import msgspec

from kube_runtime import (
    UNDECODABLE,
    Client,
    ClientOptions,
    KubeconfigPolicy,
    KubeError,
    Manager,
    dump_yaml,
    require_readable,
)
from kube_runtime.client.limits import AnswerMemory
from kube_runtime.informer import Informer
from kube_simulation import serve_simulation
from kyma_oci import AllowedHosts, DescriptorUnreadable, Layer, Registries, SourceError, component_of
from kyma_oci.packing import ArtifactManifest
from kyma_oci.signatures.cosign import layers_in, signed_in, verify_cosigned
from kyma_oci.signatures.descriptors import verify
from kyma_oci.signatures.keys import keys_in
from kyma_oci.signatures.normal_form import Unverified, normal_form
from lifecycle_manager.admission import create_app
from lifecycle_manager.catalog_sync.wanted import wanted_catalog
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES, Secret
from lifecycle_manager.endpoints import validators
from lifecycle_manager.events.endpoint import EndpointOptions
from lifecycle_manager.kyma.resolution import Installed, resolve
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.validation import release_warnings, template_error, template_warnings
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager.rollout.releases import by_channel
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.rollout.target import changed_clusters, targets_of
from lifecycle_manager.skr.access import KUBECONFIG_KEY, AccessSecretIncomplete, kubeconfig_in
from lifecycle_manager.sync_resource.snapshot import read_text
from lifecycle_manager_api import (
    KymaSpec,
    ModuleReleaseMeta,
    ModuleRollout,
    ModuleTemplate,
    ObjectMeta,
    as_document,
    names,
)
from tests import builders
from tests.attack import kinds
from tests.attack.descriptors import SIGNED, check_descriptor, hostile_descriptor
from tests.attack.fleet import attacked_fleet
from tests.attack.grammar import hostile_bytes, hostile_json
from tests.attack.running import hostile_server
from tests.attack.state_checks import check_state, hostile_checks
from tests.kinds import CONFIG_MAPS
from tests.registries import blob_server
from tests.security.events.test_hostile_bytes import MINE, URL, endpoint
from tests.unit.watcher.test_admission_app import Asked
from tests.watcher_process import review

MAX_CPU_SECONDS = 1.0
"""What one document may cost: the worst needs a tenth of it on a slow machine."""
WATCH_SECONDS = 0.3
Attack = Callable[[bytes], Awaitable[None]]


class Finding(Exception):
    """An attack had an effect that none may have."""


@dataclass(frozen=True)
class Surface:
    """A place where bytes of strangers come in: how a sample is made, and what attacks with it."""

    sample: Callable[[random.Random], bytes]
    open: Callable[[], AbstractAsyncContextManager[Attack]]
    max_seconds: float = 10.0


@asynccontextmanager
async def _admission() -> AsyncIterator[Attack]:
    no_client: Any = None
    manager = Manager(no_client, namespace=names.KCP_NAMESPACE)
    offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
    checks = validators(manager, offers)
    transport = httpx.ASGITransport(create_app(checks), raise_app_exceptions=True)
    async with httpx.AsyncClient(transport=transport, base_url="https://kcp") as client:

        async def attack(sample: bytes) -> None:
            for plural in checks:
                answer = await client.post(f"/validate/{plural}", content=sample)
                _expect(answer.status_code in {200, 400}, f"the answer is {answer.status_code}")
                if answer.status_code == 200:
                    _expect(isinstance(answer.json()["response"]["allowed"], bool), "nothing is allowed or refused")

        yield attack


@asynccontextmanager
async def _watcher() -> AsyncIterator[Attack]:
    async def attack(sample: bytes) -> None:
        status, answer = await Asked().post([sample])
        _expect(status in {200, 400}, f"the answer is {status}")
        if status == 200:
            _expect(msgspec.json.decode(answer)["response"]["allowed"] is True, "a user's change is refused")

    yield attack


@asynccontextmanager
async def _events() -> AsyncIterator[Attack]:
    async with endpoint(EndpointOptions(events_per_second=1e9, burst=10**9), []) as client:

        async def attack(sample: bytes) -> None:
            answer = await client.post(URL, content=sample, headers=MINE.headers(sample))
            _expect(answer.status_code in {200, 400, 413}, f"the answer is {answer.status_code}")

        yield attack


@asynccontextmanager
async def _kubeconfigs() -> AsyncIterator[Attack]:
    async def attack(sample: bytes) -> None:
        data = {KUBECONFIG_KEY: base64.b64encode(sample).decode()}
        with suppress(KubeError, AccessSecretIncomplete):
            text = kubeconfig_in(Secret(metadata=ObjectMeta(name="kubeconfig-demo"), data=data))
            await (await Client.from_kubeconfig(text, policy=KubeconfigPolicy.strict())).close()

    yield attack


@asynccontextmanager
async def _texts() -> AsyncIterator[Attack]:
    async def attack(sample: bytes) -> None:
        read_text(sample.decode(errors="replace"))

    yield attack


@asynccontextmanager
async def _descriptors() -> AsyncIterator[Attack]:
    """Signed descriptors: what is accepted installs the same, and what has another normal form is not accepted."""
    keys = keys_in({"public.pem": SIGNED.with_name("public.pem").read_bytes()})
    signed = normal_form(SIGNED.read_bytes())

    async def attack(sample: bytes) -> None:
        with suppress(Unverified):
            check_descriptor(sample)
        with suppress(Unverified):
            verify(sample, keys, datetime(2026, 7, 1, tzinfo=UTC))
            _expect(normal_form(sample) == signed, "something else than what was signed is verified")
        with suppress(DescriptorUnreadable):
            component_of(msgspec.Raw(sample))
        with suppress(Unverified, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
            layers_in(msgspec.json.decode(sample, type=ArtifactManifest))
        for each in signed_in(sample):
            with suppress(Unverified):
                verify_cosigned(f"sha256:{'1' * 64}", (each,), keys, datetime(2026, 7, 1, tzinfo=UTC))
                _expect(False, "a signature by nobody is verified")

    yield attack


@asynccontextmanager
async def _state_checks() -> AsyncIterator[Attack]:
    async def attack(sample: bytes) -> None:
        check_state(sample)

    yield attack


class ModuleVersion(msgspec.Struct, frozen=True):
    """A ModuleTemplate with what offers it."""

    template: ModuleTemplate
    release: ModuleReleaseMeta
    rollout: ModuleRollout | None = None


ASKING = msgspec.convert(
    {
        "channel": "regular",
        "modules": [
            {"name": "good", "managed": True},
            {"name": "bad", "managed": True, "upgradeStrategy": "manual"},
        ],
    },
    KymaSpec,
)
"""A Kyma that has both modules, and waits with the bad one."""


@asynccontextmanager
async def _catalog() -> AsyncIterator[Attack]:
    """What who may write the catalog writes: no module of it fails another one, or the Kymas of the fleet."""
    good = ModuleVersion(builders.template("good", "1.0.0", installs=True), builders.release("good", regular="1.0.0"))
    manifest = builders.manifest("bad", "0.9.0")

    async def attack(sample: bytes) -> None:
        try:
            require_readable(sample)  # as whatever is watched is
            msgspec.json.decode(sample)
            bad = msgspec.json.decode(sample, type=ModuleVersion)
        except UNDECODABLE:
            return
        offer = Offer.of([good.template, bad.template], [good.release, bad.release])
        template_error(bad.template, offer), template_warnings(bad.template, offer)
        release_warnings(bad.release, offer), wanted_catalog(offer, {})
        rollouts = by_channel([bad.rollout] if bad.rollout is not None else [])
        timing = Timing(builders.NOW, {"bad": builders.NOW}, rollouts=rollouts)
        installed = {"bad": Installed("0.9.0", "regular")}
        found = resolve(ASKING, ObjectMeta(name="k", uid="u"), offer=offer, installed=installed, timing=timing)
        _expect([each.version for each in found if each.module.name == "good"] == ["1.0.0"], "another module has none")
        targets = targets_of(offer)
        _expect(bool(targets["good"]["regular"].content), "another module installs nothing")
        for each in targets.values():
            changed_clusters(each, [manifest], ())
            for spec in (spec for target in each.values() for spec in target.specs.values()):
                with suppress(SourceError):
                    source_in(spec.install.source)

    yield attack


@asynccontextmanager
async def _default_crs() -> AsyncIterator[Attack]:
    async def attack(sample: bytes) -> None:
        _expect(not (effect := kinds.effect_of_default_cr(sample)), effect)

    yield attack


@asynccontextmanager
async def _policies() -> AsyncIterator[Attack]:
    async def attack(sample: bytes) -> None:
        _expect(not (effect := kinds.effect_of_objects(sample)), effect)

    yield attack


@asynccontextmanager
async def _api_server() -> AsyncIterator[Attack]:
    """The client of an SKR, with the limits that it has there, and shorter timeouts."""
    options = ClientOptions(
        qps=0,
        timeout_seconds=1.0,
        connect_timeout_seconds=1.0,
        attempts=2,
        max_retry_after_seconds=0.5,
        max_response_bytes=8 * 1024 * 1024,
        max_list_bytes=16 * 1024 * 1024,
        max_values=200_000,
        watch_silence_seconds=0.2,
        answer_memory=AnswerMemory(),
    )
    async with serve_simulation() as simulation, hostile_server(simulation.address) as hostile:

        async def attack(sample: bytes) -> None:
            cluster = simulation.cluster(sample.decode())
            for number in range(5):
                cluster.create({"apiVersion": "v1", "kind": "ConfigMap"} | _named(f"one-{number}"))
            config = {**cluster.kubeconfig}
            config["clusters"] = [
                {**each, "cluster": {"server": f"http://{hostile.host}/clusters/{sample.decode()}"}}
                for each in config["clusters"]
            ]
            baited = hostile.bait
            async with await Client.from_kubeconfig(
                config, options=options, policy=KubeconfigPolicy.permissive()
            ) as client:
                for call in (
                    lambda: client.get(CONFIG_MAPS, "one-1", "default"),
                    lambda: client.list(CONFIG_MAPS, "default"),
                    lambda: client.apply(CONFIG_MAPS, "two", _named("two"), "default", field_manager="test"),
                    lambda: client.merge_patch(CONFIG_MAPS, "one-2", {"data": {"a": "b"}}, "default"),
                    lambda: client.delete(CONFIG_MAPS, "one-3", "default"),
                ):
                    with suppress(KubeError):
                        await call()
                await _follow(Informer(client, CONFIG_MAPS, namespace="default"))
            simulation.remove(sample.decode())
            _expect(hostile.bait == baited, "a redirect was followed to another server")

        yield attack


async def _follow(informer: "Informer[Any]") -> None:
    """Run an informer for a while: whatever comes, it goes on."""
    following = asyncio.create_task(informer.run())
    await asyncio.wait({following}, timeout=WATCH_SECONDS)
    if following.done():
        following.result()
        raise Finding("the informer ended")
    following.cancel()
    with suppress(asyncio.CancelledError):
        await following


@asynccontextmanager
async def _registries() -> AsyncIterator[Attack]:
    async with blob_server() as blobs, hostile_server(f"http://{blobs.host}") as hostile, AsyncExitStack() as stack:
        registries = Registries(timeout_seconds=1.0, allowed=AllowedHosts.of((hostile.host,)))
        stack.push_async_callback(registries.close)
        digest = blobs.hold(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n")

        async def attack(sample: bytes) -> None:
            baited = hostile.bait
            for _ in range(3):
                with suppress(SourceError):
                    found = await registries.pull(Layer("http", hostile.host, sample.decode(), digest))
                    _expect(found == blobs.blobs[digest], "a layer has another digest")
            _expect(hostile.bait == baited, "a redirect was followed to another registry")

        yield attack


@asynccontextmanager
async def _fleet() -> AsyncIterator[Attack]:
    async with attacked_fleet() as fleet:
        yield fleet.attack


def _expect(holds: bool, otherwise: str) -> None:
    if not holds:
        raise Finding(otherwise)


def _named(name: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}}


def _review(draw: random.Random) -> bytes:
    """Return a review of one of the kinds that are checked, of which the object is hostile, or all."""
    item = draw.choice((builders.sync_resource(), builders.template(), builders.release(regular="1.0.0")))
    document = as_document(item)
    request = {"uid": "u1", "operation": draw.choice(("CREATE", "UPDATE", "DELETE")), "object": document}
    return hostile_json({"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": request}, draw)


def _watched(draw: random.Random) -> bytes:
    return hostile_json(msgspec.json.decode(review("one", draw.choice(("CREATE", "UPDATE", "DELETE")))), draw)


def _event(draw: random.Random) -> bytes:
    good = {
        "watched": {"Namespace": "kyma-system", "Name": "default"},
        "watchedGvk": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "Kyma"},
        "operation": draw.choice(("UPDATE", "HEARTBEAT", "RESYNC")),
        "uid": "u",
        "resourceVersion": "7",
        "sequence": 1,
        "counters": {"pending": 1},
        "observedAt": "2026-11-01T10:00:00Z",
        "traceparent": "00-0123456789abcdef0123456789abcdef-0123456789abcdef-01",
    }
    return hostile_json(good, draw)


def _kubeconfig(draw: random.Random) -> bytes:
    encoded = base64.b64encode(b"-----BEGIN CERTIFICATE-----\nnone\n-----END CERTIFICATE-----\n").decode()
    cluster: dict[str, Any] = {"server": "https://10.0.0.1", "certificate-authority-data": encoded}
    user: dict[str, Any] = {"token": "abc"}
    more = draw.choice(("", "exec", "tokenFile", "auth-provider", "proxy-url", "insecure-skip-tls-verify", "as"))
    (cluster if more in {"proxy-url", "insecure-skip-tls-verify"} else user)[more or "token"] = {
        "exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch"},
        "insecure-skip-tls-verify": True,
    }.get(more, "/etc/passwd")
    good = {
        "current-context": "a",
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "clusters": [{"name": "a", "cluster": cluster}],
        "users": [{"name": "a", "user": user}],
    }
    return hostile_bytes(dump_yaml(good).encode(), draw) if draw.random() < 0.5 else hostile_json(good, draw)


def _text(draw: random.Random) -> bytes:
    objects = [
        {"apiVersion": "v1", "kind": "ConfigMap", **_named(f"one-{number}"), "data": {"a": "b"}}
        for number in range(draw.randint(1, 3))
    ]
    if draw.random() < 0.5:
        return b"\n---\n".join(hostile_json(each, draw) for each in objects)
    text = "---\n".join(map(dump_yaml, objects)).encode()
    keys = (b"a: &a [*a]", b"<<: *a", b"!!python/object:os.system x", b"? {a: b}\n: c", b"\t- a", b"%YAML 9", b"=: =")
    return hostile_bytes(text.replace(b"data:", draw.choice(keys) + b"\ndata:", 1), draw)


def _module_version(draw: random.Random) -> bytes:
    template = builders.template("bad", "1.0.0", installs=True, mandatory=draw.random() < 0.1)
    document = {"template": as_document(template), "release": as_document(builders.release("bad", regular="1.0.0"))}
    document["template"]["spec"]["resources"] = [{"name": "rawManifest", "link": "https://example.com/a.yaml"}]
    document["release"]["metadata"]["annotations"] = {names.UPGRADE_DEADLINE: "1h", names.ROLLOUT_STRATEGY: "careful"}
    waves = [{"name": "first", "kymaSelector": {}}]
    rollout = {"moduleName": "bad", "channel": "regular", "version": "1.0.0", "strategy": {"waves": waves}}
    document["rollout"] = {"metadata": {"name": "bad-regular-1"}, "spec": rollout}
    return hostile_json(document, draw)


def _descriptor(draw: random.Random) -> bytes:
    signed = SIGNED.read_bytes()
    match draw.randrange(5):
        case 0:
            return hostile_bytes(signed, draw)
        case 1:
            return hostile_json(msgspec.json.decode(signed), draw)
        case _:
            return hostile_descriptor(draw)


def _seed(draw: random.Random) -> bytes:
    return f"s{draw.randrange(10**9)}".encode()


SURFACES = {
    "admission": Surface(_review, _admission),
    "watcher": Surface(_watched, _watcher),
    "events": Surface(_event, _events),
    "kubeconfigs": Surface(_kubeconfig, _kubeconfigs),
    "texts": Surface(_text, _texts),
    "descriptors": Surface(_descriptor, _descriptors),
    "state-checks": Surface(hostile_checks, _state_checks),
    "catalog": Surface(_module_version, _catalog),
    "default-crs": Surface(kinds.sample_of_default_cr, _default_crs),
    "policies": Surface(kinds.sample_of_objects, _policies),
    "api-server": Surface(_seed, _api_server, max_seconds=30.0),
    "registry": Surface(_seed, _registries, max_seconds=30.0),
    "fleet": Surface(_seed, _fleet, max_seconds=300.0),
}


async def attack_with(surface: Surface, attack: Attack, sample: bytes) -> None:
    """Attack with one sample. Raises Finding, and whatever else comes of it."""
    began = time.process_time()
    try:
        async with asyncio.timeout(surface.max_seconds):
            await attack(sample)
            await asyncio.sleep(
                0
            )  # what an attack in one turn has left, such as a body half read, is closed in the next
    except TimeoutError:
        raise Finding(f"it was not over after {surface.max_seconds:g} s") from None
    taken = time.process_time() - began
    limit = MAX_CPU_SECONDS * max(1.0, surface.max_seconds / 10)
    _expect(taken <= limit, f"it took {taken:.1f} s of CPU")
