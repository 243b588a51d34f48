"""The controllers of the Lifecycle Manager: one for each thing that is looked after, with its queue."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import structlog
from prometheus_client import Counter

from kube_runtime import Controller, ObjectKey, Pace, Priority, Result, RetryPolicy, RuntimeMetrics
from kube_runtime.leases import LeaseLost
from lifecycle_manager.catalog_sync import CatalogReconciler
from lifecycle_manager.informers import Informers
from lifecycle_manager.kyma import KymaReconciler
from lifecycle_manager.mandatory_modules import MandatoryInstallation, MandatoryRetirement, ReleaseKey
from lifecycle_manager.module_config import ModuleConfigReconciler, ModuleKey
from lifecycle_manager.module_installation import ManifestReconciler
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr import ClusterProbe, Connections, SkrAccessError
from lifecycle_manager.skr_webhook import AuthorityRotation, SkrWebhookReconciler, WatcherStatusReconciler
from lifecycle_manager.sync_resource import SyncResourceReconciler
from lifecycle_manager_api import names

log = structlog.get_logger("controllers")

K = TypeVar("K", ObjectKey, ModuleKey, ReleaseKey, str)
Owns = Callable[[str], bool]
"""Tells whether something, by its name, is this replica's to look after."""

PROBE_POLICY = RetryPolicy(base_seconds=0.5, most_seconds=60.0, rate=100.0, burst=1000)
FIRST_PROBE_SECONDS = 0.1
TURN_SECONDS = 0.001
"""How long other work may hold up an event at each of the dozen turns of the loop that it takes."""


@dataclass(frozen=True, eq=False)
class Reconcilers:
    """What looks after each thing."""

    kyma: KymaReconciler
    catalog: CatalogReconciler
    mandatory: MandatoryInstallation
    mandatory_retirement: MandatoryRetirement
    skr_webhook: SkrWebhookReconciler
    watcher_status: WatcherStatusReconciler
    module_config: ModuleConfigReconciler
    manifest: ManifestReconciler
    sync_resource: SyncResourceReconciler
    authority: AuthorityRotation


class Controllers:
    """One controller for each reconciler, with its queue.

    Each key belongs to somebody, to a Kyma as a rule, and is worked on only where `owns` says that this replica looks
    after that. One that is not is dropped: whoever gets it looks at all that belongs to it.
    """

    def __init__(
        self,
        reconcilers: Reconcilers,
        connections: Connections,
        informers: Informers,
        settings: Settings,
        metrics: RuntimeMetrics,
        requeues: Counter,
        owns: Owns,
    ) -> None:
        pace = Pace(turn_seconds=TURN_SECONDS)
        policy = RetryPolicy(
            base_seconds=settings.failure_base_delay.total_seconds(),
            most_seconds=settings.failure_max_delay.total_seconds(),
            rate=settings.rate_limiter_frequency,
            burst=settings.rate_limiter_burst,
        )
        self._all: list[tuple[Controller[Any], Callable[[Any], str]]] = []

        def controller(
            name: str,
            reconcile: Callable[[K], Awaitable[Result]],
            concurrency: int,
            owner: Callable[[K], str],
            retry: RetryPolicy = policy,
        ) -> Controller[K]:
            counted = _counted(name, _while_owned(owns, owner, _awaiting_access(reconcile)), requeues)
            made = Controller(name, counted, concurrency=concurrency, retry=retry, metrics=metrics, pace=pace)
            self._all.append((made, owner))
            return made

        owners = _Owners(informers)
        self.reconcilers = reconcilers
        self.kyma = controller("kyma", reconcilers.kyma.reconcile, settings.max_concurrent_kyma_reconciles, _itself)
        self.catalog = controller(
            "catalog", reconcilers.catalog.reconcile, settings.max_concurrent_catalog_reconciles, _itself
        )
        self.mandatory = controller(
            "mandatory-modules",
            reconcilers.mandatory.reconcile,
            settings.max_concurrent_mandatory_modules_reconciles,
            _itself,
        )
        self.mandatory_retirement = controller(
            "mandatory-modules-deletion",
            reconcilers.mandatory_retirement.reconcile,
            settings.max_concurrent_mandatory_modules_deletion_reconciles,
            owners.of_release,
        )
        # Probes wait and do nothing else, so they need no pace; those that have stayed silent for long come last.
        probe = ClusterProbe(connections, self._cluster_answers)
        self.skr_probe = Controller(
            "skr-probe",
            _counted("skr-probe", _while_owned(owns, str, probe.reconcile), requeues),
            concurrency=settings.max_concurrent_skr_probes,
            retry=PROBE_POLICY,
            retry_priority=Priority.RESYNC,
            metrics=metrics,
        )
        self._all.append((self.skr_probe, str))
        self.on_recovery: Callable[[str], None] = lambda _: None
        self.skr_webhook = controller(
            "watcher", reconcilers.skr_webhook.reconcile, settings.max_concurrent_watcher_reconciles, _itself
        )
        self.manifest = controller(
            "manifest", reconcilers.manifest.reconcile, settings.max_concurrent_manifest_reconciles, owners.of_manifest
        )
        self.watcher_status = controller("watcher-status", reconcilers.watcher_status.reconcile, 1, owners.of_watcher)
        self.module_config = controller(
            "module-config",
            reconcilers.module_config.reconcile,
            settings.max_concurrent_module_config_reconciles,
            owners.of_module,
        )
        self.sync_resource = controller(
            "sync-resource",
            reconcilers.sync_resource.reconcile,
            settings.max_concurrent_sync_resource_reconciles,
            owners.of_sync_resource,
        )
        # Every replica follows the authorities: it serves with them, and two that replace one at once agree.
        rotate = _counted("authority", reconcilers.authority.reconcile, requeues)
        self.authority = Controller("authority", rotate, concurrency=1, retry=policy, metrics=metrics, pace=pace)

    def start_in(self, tasks: asyncio.TaskGroup) -> list[asyncio.Task[None]]:
        """Run all of them in a task group."""
        return [tasks.create_task(each.run(), name=f"controller {each.name}") for each in self._everything]

    @property
    def _everything(self) -> list[Controller[Any]]:
        return [*(each for each, _ in self._all), self.authority]

    async def shutdown(self, grace_seconds: float) -> None:
        """Finish what is under way and what waits in the queues, within the grace time."""
        async with asyncio.TaskGroup() as tasks:
            for each in self._everything:
                tasks.create_task(each.shutdown(grace_seconds))

    async def finish(self, given_away: Callable[[str], bool]) -> None:
        """Return once nothing is under way any more for owners that a function names."""
        async with asyncio.TaskGroup() as tasks:
            for each, owner in self._all:
                tasks.create_task(each.queue.finished(_owned_by(owner, given_away)))

    def cluster_is_silent(self, kyma_name: str) -> None:
        """Have a cluster asked for a sign of life that gave no answer just now."""
        if not self.skr_probe.queue.failures(kyma_name):
            self.skr_probe.queue.add_after(kyma_name, FIRST_PROBE_SECONDS, Priority.EVENT)

    def _cluster_answers(self, kyma_name: str) -> None:
        self.on_recovery(kyma_name)


@dataclass(frozen=True, eq=False)
class _Owners:
    """Whose keys are: those of what belongs to a Kyma are the Kyma's."""

    informers: Informers

    def of_module(self, key: ModuleKey) -> str:
        return key.kyma

    def of_manifest(self, key: ObjectKey) -> str:
        manifest = self.informers.manifests.cache.get(key)
        return (manifest.metadata.labels.get(names.KYMA_NAME) or key.name) if manifest is not None else ""

    def of_sync_resource(self, key: ObjectKey) -> str:
        resource = self.informers.sync_resources.cache.get(key)
        return resource.spec.kyma if resource is not None else ""

    def of_release(self, key: ReleaseKey) -> str:
        return f"{key.kind} {key.name}"

    def of_watcher(self, key: ObjectKey) -> str:
        return f"Watcher {key.name}"


def _itself(key: ObjectKey) -> str:
    return key.name


def _owned_by(owner: Callable[[Any], str], given_away: Callable[[str], bool]) -> Callable[[Any], bool]:
    return lambda key: given_away(owner(key))


def _while_owned(
    owns: Owns, owner: Callable[[K], str], reconcile: Callable[[K], Awaitable[Result]]
) -> Callable[[K], Awaitable[Result]]:
    """Leave a key alone that is another replica's. What has gone has no owner; to forget it is everybody's business."""

    async def attempt(key: K) -> Result:
        whose = owner(key)
        if whose and not owns(whose):
            return Result()
        try:
            return await reconcile(key)
        except (LeaseLost, ExceptionGroup) as error:  # a group comes from what a reconcile does at the same time
            if isinstance(error, ExceptionGroup) and error.split(LeaseLost)[1] is not None:
                raise
        log.info("left to another replica", key=str(key))
        return Result()

    return attempt


def _awaiting_access(reconcile: Callable[[K], Awaitable[Result]]) -> Callable[[K], Awaitable[Result]]:
    """Try no key again for want of access to its cluster: new credentials wake it, and so does a sign of life."""

    async def attempt(key: K) -> Result:
        try:
            return await reconcile(key)
        except SkrAccessError as error:
            log.debug("waits for access", key=str(key), reason=error.reason)
            return Result()

    return attempt


def _counted(
    name: str, reconcile: Callable[[K], Awaitable[Result]], requeues: Counter
) -> Callable[[K], Awaitable[Result]]:
    """Count the keys that come again, by why they do."""
    intended = requeues.labels(f"{name}_interval", "intended")

    async def attempt(key: K) -> Result:
        try:
            result = await reconcile(key)
        except Exception as error:
            requeues.labels(f"{name}_{type(error).__name__}", "unexpected").inc()
            raise
        if result.requeue_after is not None:
            intended.inc()
        return result

    return attempt
