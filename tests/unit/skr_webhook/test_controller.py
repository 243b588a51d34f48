"""The Watcher of an SKR: its webhook waits for the first event, and no fault of the event path stays unreported."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from kube_runtime import (
    ALONE,
    ClusterUnreachable,
    Controller,
    Forbidden,
    KubeError,
    Manager,
    NotFound,
    NotServed,
    ObjectKey,
    Result,
    Sharding,
)
from kube_runtime.sharding import Alone
from kube_simulation import Drop, Refuse, Refused, is_write
from kyma_certs import create_ca
from lifecycle_manager import skr_webhook, watcher_certificates
from lifecycle_manager.contract.conditions import is_event_path_faulty
from lifecycle_manager.contract.resources import KYMAS, SECRETS, WATCHERS
from lifecycle_manager.contract.signals import (
    CAsChanged,
    ClusterReachable,
    ClusterReplaced,
    ResyncRequested,
    WatcherEventReceived,
    WebhookRulesChanged,
)
from lifecycle_manager.options.watcher import CertificateSettings, LeafRules
from lifecycle_manager.skr.access import SkrAccessError, SkrUnreachable
from lifecycle_manager.skr_webhook import CanaryTimes, WatcherDeployment, WatcherSettings, WatcherTimes
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation
from lifecycle_manager.watcher_certificates.tls_secret import key_pair_in
from lifecycle_manager_api import find, names
from tests.kinds import DEPLOYMENTS, NETWORK_POLICIES, WEBHOOKS
from tests.waiting import eventually
from tests.world import KCP, SKR, World, open_world

KEY = ObjectKey(KCP, "demo")
SETTINGS = WatcherSettings(deployment=WatcherDeployment(image="watcher:1", kcp_address="kcp.example.com:443"))

RULES = LeafRules()


@dataclass(frozen=True)
class Shard(Alone):
    """The share of a replica: the Kymas that it owns."""

    owned: set[str]

    def owns(self, owner: str) -> bool:
        return owner in self.owned


@dataclass(eq=False)
class Process:
    """A process of LM with the controller `watcher`."""

    world: World
    manager: Manager
    controller: Controller[ObjectKey, Any]
    rules_changed: list[str] = field(default_factory=list)

    def event(self, *, is_canary: bool = False) -> int:
        """Publish an event of the Watcher; return how many keys it enqueued."""
        at = self.world.clock.monotonic()
        return self.manager.publish(WatcherEventReceived("demo", is_canary=is_canary, at=at))

    async def turn(self, *causes: Any) -> Result:
        """Reconcile the Watcher once, with current caches, for these causes and those that wait."""
        kymas, watchers = self.manager.informer(KYMAS), self.manager.informer(WATCHERS)
        version = (await self.world.in_kcp()).metadata.resource_version
        number = len((await self.world.kcp.list(WATCHERS, KCP)).items)
        await eventually(
            lambda: (kyma := kymas.cache.get(KEY)) is not None and kyma.metadata.resource_version == version
        )
        await eventually(lambda: len(watchers.cache.list()) == number)
        await self.world.sync_caches()
        return await self.controller.reconcile_now(KEY, *causes, *self.controller.queue.take_causes(KEY))

    def overdue_sample(self) -> float | None:
        """Return the sample of the metric for a late renewal of the Kyma's certificate."""
        name = "lifecycle_mgr_self_signed_cert_not_renew"
        return self.manager.registry.get_sample_value(name, {"kyma_name": "demo"})

    async def reported(self) -> tuple[str, bool]:
        """Reconcile the Watcher; return the reason of the condition, and whether the event path is faulty."""
        await self.turn()
        kyma = await self.world.in_kcp()
        condition = find(kyma.status.conditions, "SKRWebhook")
        return (condition.reason if condition is not None else "", is_event_path_faulty(kyma))


def set_up(
    world: World, manager: Manager, settings: WatcherSettings, rules: LeafRules = RULES
) -> tuple[CARotation, Controller[ObjectKey, Any]]:
    """Add the CAs and the controller `watcher` to a Manager."""
    cas, leaves = watcher_certificates.setup(manager, world.kcp, CertificateSettings(leaf=rules))
    no_kinds: Any = None
    return cas, skr_webhook.setup(manager, world.connections, no_kinds, cas=cas, certificates=leaves, settings=settings)


@asynccontextmanager
async def process(world: World, rules: LeafRules = RULES, sharding: Sharding = ALONE) -> AsyncGenerator[Process, None]:
    """Run the caches of another process of LM in a world; its controller is driven turn by turn."""
    manager = Manager(world.kcp, sharding=sharding, clock=world.clock, namespace=KCP, events=world.recorder)
    cas, controller = set_up(world, manager, SETTINGS, rules)
    await cas.start()
    made = Process(world, manager, controller)
    manager.on(WebhookRulesChanged, lambda signal: made.rules_changed.append(signal.kyma))
    async with manager.background():
        await manager.wait_synced()
        yield made


@asynccontextmanager
async def world_with_kyma() -> AsyncGenerator[World, None]:
    async with open_world() as world:
        await world.register()
        await world.introduced()
        yield world


async def has_webhook(world: World) -> bool:
    try:
        await (await world.skr()).get(WEBHOOKS, "skr-webhook")
    except (NotFound, NotServed):
        return False
    return True


async def test_webhook_is_installed_only_after_the_first_event() -> None:
    async with world_with_kyma() as world, process(world) as one:
        assert await one.reported() == ("WatcherStarting", False)
        assert not await has_webhook(world), "a user's write would wait for a Watcher that does not run"
        one.event()
        assert await one.reported() == ("WatcherReady", False)
        assert await has_webhook(world)


async def test_starting_watcher_is_reconciled_again_before_it_counts_as_silent() -> None:
    async with world_with_kyma() as world, process(world) as one:
        looked = await one.turn()
        assert looked.requeue_after is not None
        assert looked.requeue_after <= 60


async def test_watcher_that_never_sent_an_event_is_reported_and_gets_no_webhook() -> None:
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        world.clock.advance(WatcherTimes().silence + 1)
        assert await one.reported() == ("NoWatcherEvents", True)
        reasons = [reason for reason, _ in world.events if "Watcher" in reason]
        assert reasons == ["NoWatcherEvents"]
        assert not await has_webhook(world)
        async with process(world) as another:
            assert await another.reported() == ("NoWatcherEvents", True), "a new process knows no more"
        one.event()
        assert await one.reported() == ("WatcherReady", False)
        assert await has_webhook(world)


async def test_silent_watcher_stays_silent_for_a_new_process_until_an_event_arrives() -> None:
    async with world_with_kyma() as world:
        async with process(world) as former:
            former.event()
            assert await former.reported() == ("WatcherReady", False)
            world.clock.advance(WatcherTimes().silence + 1)
            assert await former.reported() == ("WatcherSilent", True)
        async with process(world) as one:
            assert await one.reported() == ("WatcherSilent", True)
            one.event()
            assert await one.reported() == ("WatcherReady", False)


async def test_watcher_of_a_skipped_kyma_is_unchanged_until_it_is_no_longer_skipped() -> None:
    async with world_with_kyma() as world, process(world) as one:
        one.event()
        assert await one.reported() == ("WatcherReady", False)
        await world.label(names.SKIP_RECONCILIATION, "true")
        await (await world.skr()).delete(WEBHOOKS, "skr-webhook")
        await one.turn(ClusterReplaced("demo"))
        assert not await has_webhook(world)
        await world.label(names.SKIP_RECONCILIATION, None)
        await one.turn(ClusterReplaced("demo"))
        assert await has_webhook(world)


async def test_each_installation_of_a_webhook_publishes_that_the_rules_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lifecycle_manager.skr_webhook.apply.RULES_SECONDS", 0.0)
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        assert one.rules_changed == []  # without a webhook
        one.event()
        await one.turn()
        await eventually(lambda: one.rules_changed == ["demo"])
        await one.turn(ClusterReplaced("demo"))
        assert one.rules_changed == ["demo"]  # it was unchanged
        await (await world.skr()).delete(WEBHOOKS, "skr-webhook")
        await one.turn(ClusterReplaced("demo"))
        await eventually(lambda: one.rules_changed == ["demo", "demo"])


async def test_canary_of_a_watcher_in_order_is_the_only_request_until_something_changes() -> None:
    async with world_with_kyma() as world, process(world) as one:
        one.event()
        for _ in range(2):
            await one.turn("changed")
            one.event(is_canary=True)
        await one.turn()
        requests, state = world.requests, one.controller.state(KEY)
        assert state is not None
        state.certificate = None  # computing anything fails without it
        for _ in range(3):
            world.clock.advance(CanaryTimes().interval / 3)
            await one.turn()
            one.event(is_canary=True)
        in_skr = world.cluster("demo").requests(lambda record: record.verb != "watch", since=requests)
        assert [(each.verb, each.resource, each.manager) for each in in_skr] == [
            ("apply", "serviceaccounts", "lifecycle-manager-canary")
        ]
        assert world.writes_to("kcp", requests) == []


async def test_resync_of_a_watcher_tests_its_path_until_it_is_reached() -> None:
    """A Watcher learns by the first request that it is reached, and users may not change anything for long."""
    async with world_with_kyma() as world, process(world) as one:
        one.event()
        for _ in range(2):
            await one.turn("changed")
            one.event(is_canary=True)
        await one.turn()
        requests = world.requests
        assert one.manager.publish(ResyncRequested("demo")) == 1
        again = (await one.turn()).requeue_after
        assert again is not None
        world.clock.advance(again)
        await one.turn()
        canaries = world.cluster("demo").requests(lambda record: record.resource == "serviceaccounts", since=requests)
        assert len(canaries) == 2
        assert again < 6


async def test_event_enqueues_the_watcher_only_where_it_may_change_the_condition() -> None:
    async with world_with_kyma() as world, process(world) as one:
        assert one.event() == 1
        assert one.event() == 0
        world.clock.advance(WatcherTimes().silence + 1)
        assert one.event() == 1
        assert one.event(is_canary=True) == 0


async def test_signals_of_the_cluster_and_of_the_cas_enqueue_the_watcher() -> None:
    async with world_with_kyma() as world, process(world) as one:
        for signal in (ClusterReachable("demo"), ClusterReplaced("demo"), CAsChanged()):
            assert one.manager.publish(signal) == 1


async def test_renewal_that_is_late_is_a_metric_until_it_took_place() -> None:
    late = timedelta(days=-29)
    rules = LeafRules(lifetime=timedelta(days=90), renew_before=timedelta(days=30), renewal_buffer=late)
    async with world_with_kyma() as world, process(world, rules) as one:
        samples = []
        for days in (0, 32, 29):
            world.clock.advance(timedelta(days=days).total_seconds())
            await one.turn()
            samples.append(one.overdue_sample())
        assert samples == [None, 1, None]


async def test_late_renewal_is_reported_only_by_the_replica_that_has_the_kyma() -> None:
    rules = LeafRules(renewal_buffer=timedelta(days=-31))
    shard = Shard({"demo"})
    async with world_with_kyma() as world, process(world, rules, shard) as one:
        await one.turn()
        assert one.overdue_sample() == 1
        shard.owned.clear()
        assert one.overdue_sample() is None


@pytest.mark.parametrize("damaged", ["tls.crt", "tls.key", "another key"])
async def test_certificate_that_was_overwritten_by_what_is_none_is_issued_again(damaged: str) -> None:
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        another = create_ca("another", lifetime=timedelta(days=1), now=world.clock.now())
        name, content = ("tls.key", another.key_pem) if damaged == "another key" else (damaged, b"damaged")
        patch = {"data": {name: base64.b64encode(content).decode()}}
        await world.kcp.merge_patch(SECRETS, "demo-webhook-tls", patch, KCP)
        await one.turn()
        issued = await world.kcp.get(SECRETS, "demo-webhook-tls", KCP)
        assert issued.data[name] != patch["data"][name]
        assert key_pair_in(issued) is not None


async def test_certificate_that_was_restored_without_its_owner_goes_with_its_kyma_again() -> None:
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        issued = await world.kcp.get(SECRETS, "demo-webhook-tls", KCP)
        await world.kcp.merge_patch(SECRETS, "demo-webhook-tls", {"metadata": {"ownerReferences": None}}, KCP)
        await one.turn()
        restored = await world.kcp.get(SECRETS, "demo-webhook-tls", KCP)
        assert restored.metadata.owner_references == issued.metadata.owner_references != ()
        assert restored.data == issued.data


async def test_secret_of_somebody_else_in_place_of_the_certificate_is_named() -> None:
    async with world_with_kyma() as world, process(world) as one:
        metadata = {"name": "demo-webhook-tls", "namespace": KCP}
        await world.kcp.create(
            SECRETS, {"apiVersion": "v1", "kind": "Secret", "metadata": metadata}, KCP, field_manager="x"
        )
        assert (await one.reported())[0] == "CertificateContended"
        condition = find((await world.in_kcp()).status.conditions, "SKRWebhook")
        assert condition is not None
        assert "demo-webhook-tls has no label operator.kyma-project.io/managed-by" in condition.message


async def kyma_deleted(world: World, one: Process) -> None:
    """Have a Watcher whose turn it is to go with its Kyma."""
    one.event()
    await one.turn()
    await world.kcp.delete(KYMAS, "demo", KCP)
    await world.reconcile(times=2)


async def test_watcher_of_a_deleted_kyma_is_removed_after_its_modules() -> None:
    async with world_with_kyma() as world, process(world) as one:
        await kyma_deleted(world, one)
        await one.turn()
        assert not await has_webhook(world)
        condition = find((await world.in_kcp()).status.conditions, "SKRWebhook")
        assert condition is not None
        assert condition.reason == "Removed"


async def test_watcher_that_may_not_be_deleted_says_why() -> None:
    async with world_with_kyma() as world, process(world) as one:
        await kyma_deleted(world, one)
        denied = Refused(403, "Forbidden", 'admission webhook "keep.example.com" denied the request: it is in use')
        with (
            world.cluster("demo").ruled_by(Refuse(lambda it: it.verb == "delete", refused=denied)),
            pytest.raises(Forbidden),
        ):
            await one.turn()
        condition = find((await world.in_kcp()).status.conditions, "SKRWebhook")
        assert condition is not None
        assert "it is in use" in condition.message
        await one.turn()
        assert not await has_webhook(world)


async def test_ca_in_the_access_secret_is_that_of_the_clients_which_the_watcher_answers() -> None:
    ca = create_ca("api-server", lifetime=timedelta(days=1), now=datetime.now(UTC)).certificate_pem
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        assert await api_server_ca_in_skr(world) == (None, None)
        await give_api_server_ca(world, base64.b64encode(ca).decode())
        await one.turn()
        assert await api_server_ca_in_skr(world) == (ca, "/tls/api-server-ca.crt")
        await give_api_server_ca(world, base64.b64encode(b"no certificate").decode())
        with pytest.raises(SkrAccessError, match="'api-server-ca' holds no certificates in PEM form"):
            await one.turn()
        assert await api_server_ca_in_skr(world) == (ca, "/tls/api-server-ca.crt")
        condition = find((await world.in_kcp()).status.conditions, "SKRWebhook")
        assert condition is not None
        assert condition.reason == "AccessSecretUnusable"
        await give_api_server_ca(world, None)
        await one.turn()
        assert await api_server_ca_in_skr(world) == (None, None)


async def give_api_server_ca(world: World, value: str | None) -> None:
    """Change the access Secret, and wait until the cache has it."""
    await world.kcp.merge_patch(SECRETS, "kubeconfig-demo", {"data": {"api-server-ca": value}}, KCP)
    await world.sync_caches()


async def api_server_ca_in_skr(world: World) -> tuple[bytes | None, str | None]:
    """Return the CA in the Watcher's Secret, and where the Watcher reads it."""
    skr = await world.skr()
    secret = await skr.get(SECRETS, "skr-webhook-tls", SKR)
    deployment = await skr.get(DEPLOYMENTS, "skr-webhook", SKR)
    environment = deployment["spec"]["template"]["spec"]["containers"][0]["env"]
    content = secret.data.get("api-server-ca.crt")
    path = next((each["value"] for each in environment if each["name"] == "API_SERVER_CA"), None)
    return base64.b64decode(content) if content is not None else None, path


async def test_rules_that_changed_are_published_although_another_object_was_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifecycle_manager.skr_webhook.apply.RULES_SECONDS", 0.0)
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        one.event()
        await (await world.skr()).delete(NETWORK_POLICIES, "skr-webhook", names.SKR_NAMESPACE)
        refusal = Refuse(
            lambda request: request.kind is not None and request.kind.plural == "networkpolicies" and is_write(request)
        )
        with world.cluster("demo").ruled_by(refusal), pytest.raises(KubeError):
            await one.turn(ClusterReplaced("demo"))
        assert await has_webhook(world)
        await one.turn("changed")
        await eventually(lambda: one.rules_changed == ["demo"])


async def test_rules_are_published_where_the_answer_to_the_write_of_the_webhook_was_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("lifecycle_manager.skr_webhook.apply.RULES_SECONDS", 0.0)
    async with world_with_kyma() as world, process(world) as one:
        await one.turn()
        one.event()
        lost = Drop(lambda it: "webhookconfigurations" in it.path and is_write(it), after=True)
        with world.cluster("demo").ruled_by(lost), pytest.raises((ClusterUnreachable, SkrUnreachable)):
            await one.turn()
        assert await has_webhook(world)
        await one.turn(ClusterReachable("demo"))
        await eventually(lambda: one.rules_changed == ["demo"])
