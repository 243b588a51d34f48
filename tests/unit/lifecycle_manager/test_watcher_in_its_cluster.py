"""A Watcher that is brought to a cluster: its webhook waits until it is heard, and nobody waits for that unseen."""

from datetime import timedelta
from typing import Any

from kube_runtime import NotFound, ObjectKey, Resource
from kyma_certs import Authorities, KeyPair, LeafRequest, create_authority, issue
from lifecycle_manager.kyma_conditions import is_event_path_faulty as is_faulty
from lifecycle_manager.skr_webhook import SkrWebhookReconciler
from lifecycle_manager.skr_webhook.canary import Canaries
from lifecycle_manager.skr_webhook.documents import WatcherSettings
from lifecycle_manager_api import Kyma, find, names
from tests import builders
from tests.kyma_world import KCP, KymaWorld, kyma_world

AUTHORITY = create_authority("authority", lifetime=timedelta(days=100), now=builders.NOW)
PAIR = issue(AUTHORITY, LeafRequest(common_name="demo"), now=builders.NOW)
KEY = ObjectKey(KCP, "demo")
WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


class OneCertificate:
    """In the place of where certificates come from."""

    async def ensure(self, _kyma: Kyma, _authorities: Authorities) -> KeyPair:
        return PAIR


class NoWatchers:
    """In the place of the informer of Watcher CRs."""

    class cache:  # noqa: N801 - in the place of an informer's cache
        @staticmethod
        def list() -> list[Any]:
            return []


def reconciler_of(world: KymaWorld) -> SkrWebhookReconciler:
    """Return what looks after the Watchers, as a new process has it."""
    nothing: Any = None
    informers: Any = world._listed
    watchers: Any = NoWatchers()
    recorder: Any = world
    return SkrWebhookReconciler(
        world.kcp,
        world.connections,
        informers["kymas"],
        informers["templates"],
        watchers,
        nothing,
        OneCertificate(),
        lambda: Authorities(AUTHORITY),
        WatcherSettings("watcher:1", "kcp.example.com:443"),
        lambda: world.now,
        recorder,
        Canaries(),
        set(),
    )


async def said(world: KymaWorld, reconciler: SkrWebhookReconciler) -> tuple[str, bool]:
    """Have the Watcher looked after; return the reason of the condition, and whether the way counts as broken."""
    for _ in range(2):  # the first one may be the one that says that there is something to say
        await world.look()
        await reconciler.reconcile(KEY)
    kyma = await world.in_kcp()
    condition = find(kyma.status.conditions, "SKRWebhook")
    return (condition.reason if condition is not None else "", is_faulty(kyma))


async def has_webhook(world: KymaWorld) -> bool:
    try:
        await (await world.skr()).get(WEBHOOKS, "skr-webhook")
    except NotFound:
        return False
    return True


async def test_watcher_that_is_never_heard_is_told_within_its_time_and_gets_no_webhook() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.introduced()
        reconciler = reconciler_of(world)
        assert await said(world, reconciler) == ("WatcherStarting", False)
        looked = await reconciler.reconcile(KEY)
        assert looked.requeue_after is not None
        assert looked.requeue_after <= 60

        reconciler.silence_seconds = 0.0  # as if the time were over
        assert await said(world, reconciler) == ("WatcherNeverHeard", True)
        assert [reason for reason, _ in world.events if reason.startswith("Watcher")] == ["WatcherNeverHeard"]
        assert not await has_webhook(world), "a user's write would meet a Watcher that is not there"

        assert await said(world, reconciler_of(world)) == ("WatcherNeverHeard", True), "a new process knows no better"
        reconciler.silence_seconds = 55.0
        reconciler.heard_from(KEY)
        assert await said(world, reconciler) == ("WatcherReady", False)
        assert await has_webhook(world)


async def test_new_process_holds_a_silent_watcher_for_silent_until_it_is_heard() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.introduced()
        former = reconciler_of(world)
        former.heard_from(KEY)
        assert await said(world, former) == ("WatcherReady", False)
        former.silence_seconds = 0.0
        assert await said(world, former) == ("WatcherSilent", True)

        reconciler = reconciler_of(world)
        assert await said(world, reconciler) == ("WatcherSilent", True)
        reconciler.heard_from(KEY)
        assert await said(world, reconciler) == ("WatcherReady", False)


async def test_watcher_of_a_kyma_that_is_skipped_is_left_alone_until_it_no_longer_is() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.introduced()
        reconciler = reconciler_of(world)
        reconciler.heard_from(KEY)
        assert await said(world, reconciler) == ("WatcherReady", False)

        await world.label(names.SKIP_RECONCILIATION, "true")
        await (await world.skr()).delete(WEBHOOKS, "skr-webhook")
        reconciler.wake(KEY)
        await said(world, reconciler)
        assert not await has_webhook(world)

        await world.label(names.SKIP_RECONCILIATION, None)
        await said(world, reconciler)
        assert await has_webhook(world)


async def test_changes_before_a_webhook_was_in_place_are_looked_for_each_time_it_is_put_there() -> None:
    async with kyma_world() as world:
        await world.register()
        await world.introduced()
        reconciler = reconciler_of(world)
        unnoticed: list[ObjectKey] = []
        reconciler.on_other_rules = unnoticed.append
        await said(world, reconciler)
        assert unnoticed == []  # there is no webhook yet
        reconciler.heard_from(KEY)
        await said(world, reconciler)
        assert unnoticed == [KEY]
        reconciler.wake(KEY)
        await said(world, reconciler)
        assert unnoticed == [KEY]  # it was there as it should be

        await (await world.skr()).delete(WEBHOOKS, "skr-webhook")
        reconciler.wake(KEY)
        await said(world, reconciler)
        assert unnoticed == [KEY, KEY]
