"""The controller `watcher`: keeps the Watcher of each Kyma's SKR in place. The key is that of the Kyma in KCP."""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import TypeGuard

from kube_runtime import Causes, Controller, KubeError, Manager, ObjectKey, Priority, Result, run_steps
from kyma_certs import Algorithm
from lifecycle_manager.contract.changes import kyma_changed
from lifecycle_manager.contract.options import (
    GARDENER,
    CertManagement,
    Count,
    Duration,
    OptionalNamespace,
    cert_management_option,
    issuer_namespace_option,
    option,
)
from lifecycle_manager.contract.resources import KYMAS, MODULE_TEMPLATES, SECRETS, WATCHERS
from lifecycle_manager.contract.signals import CAsChanged, ClusterReachable, ClusterReplaced, WatcherEventReceived
from lifecycle_manager.module_catalog.module_kinds import ModuleKinds
from lifecycle_manager.skr import OUR_SECRETS, AccessSecretMissing, Connections, SkrAccessError
from lifecycle_manager.skr_webhook.apply import WatcherState, WatcherSteps
from lifecycle_manager.skr_webhook.ca_rotation import CARotation
from lifecycle_manager.skr_webhook.cert_manager import CertManagerStore
from lifecycle_manager.skr_webhook.certificates import CertificateStore, LeafRules
from lifecycle_manager.skr_webhook.documents import WatcherDeployment
from lifecycle_manager.skr_webhook.gardener import CERTIFICATES as GARDENER_CERTIFICATES
from lifecycle_manager.skr_webhook.gardener import GardenerStore
from lifecycle_manager.skr_webhook.issued_certificates import LeafStore
from lifecycle_manager.skr_webhook.metrics import AtScrape, certificates_issued, renewal_metrics
from lifecycle_manager.skr_webhook.object_rules import ObjectRuleReader, has_other_kinds, is_switched, kymas_of
from lifecycle_manager.skr_webhook.plan import Done, Step, is_managed, plan
from lifecycle_manager.skr_webhook.snapshot import ModuleRuleReader, WatcherSnapshot
from lifecycle_manager.skr_webhook.status import failed
from lifecycle_manager.skr_webhook.timers import Timers, WatcherTimes
from lifecycle_manager.skr_webhook.watcher_status import watches_other
from lifecycle_manager_api import Kyma, names

BUILT_IN = "built-in"
KINDS_SECONDS = 0.5
"""How long to wait for further kinds of objects before the webhook of an SKR is changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatcherSettings:
    """How Watchers run, their certificates, and when the controller acts.

    A certificate whose end is nearer than `renewal_alarm` should have been renewed. With `cert_management` other than
    BUILT_IN another program issues the certificates, by the Issuer `issuer`: cert-manager, or Gardener's certificate
    management with its Issuers in `issuer_namespace`.
    `repair_on_events`: Watchers report changes of modules' objects.
    """

    deployment: WatcherDeployment = field(default_factory=WatcherDeployment)
    times: WatcherTimes = field(default_factory=WatcherTimes)
    certificates: LeafRules = field(default_factory=LeafRules)
    cert_management: CertManagement = cert_management_option()
    issuer: str = option(
        "klm-watcher-selfsigned",
        "self-signed-cert-issuer-name",
        "name of the Issuer that is created for cert-manager or Gardener",
    )
    given_issuer_namespace: OptionalNamespace = issuer_namespace_option()
    renewal_buffer: Duration = option(
        timedelta(hours=24),
        "self-signed-cert-renew-buffer",
        "time by which a renewal may be overdue before the metric reports it",
    )
    repair_on_events: bool = option(
        True,
        "repair-on-events",
        "have Watchers report objects of modules that others delete or edit, so that these are repaired at once and "
        "not at the interval; a ModulePolicy can switch this off for a module",
    )
    concurrency: Count = option(20, "max-concurrent-watcher-reconciles", "concurrent reconciles of Watchers in SKRs")

    def __post_init__(self) -> None:
        """Refuse keys that the issuer can't make. Raises ValueError."""
        if self.cert_management == GARDENER and self.certificates.algorithm is Algorithm.ED25519:
            raise ValueError("Gardener makes no ED25519 keys: use another self-signed-cert-key-algorithm")

    @property
    def issuer_namespace(self) -> str:
        """Where the Issuers of Gardener are."""
        return self.given_issuer_namespace or names.KCP_NAMESPACE

    @property
    def renewal_alarm(self) -> timedelta:
        """A certificate whose end is nearer should have been renewed."""
        return self.certificates.renew_before - self.renewal_buffer


def setup(
    manager: Manager,
    connections: Connections,
    kinds: ModuleKinds,
    *,
    cas: CARotation,
    settings: WatcherSettings,
) -> Controller[ObjectKey, WatcherState]:
    """Keep the Watcher of each Kyma's SKR in place, and remove it with the Kyma."""
    kymas, watchers = manager.informer(KYMAS), manager.informer(WATCHERS)
    clock, times = manager.clock, settings.times

    def new_state() -> WatcherState:
        share = random.random()  # noqa: S311 - spreads load, guards nothing
        return WatcherState(Timers.started(times, now=clock.monotonic(), share=share))

    controller: Controller[ObjectKey, WatcherState] = manager.controller(
        "watcher", state=new_state, concurrency=settings.concurrency, not_retried=(SkrAccessError,)
    )

    def all_kymas(_: object) -> Iterable[ObjectKey]:
        return map(KYMAS.key_of, kymas.list())

    def watcher_of(signal: WatcherEventReceived) -> Iterable[ObjectKey]:
        key = key_of(signal)
        state = controller.state_or_new(key)
        state.timers, changed = state.timers.event_received(times, now=clock.monotonic(), canary=signal.is_canary)
        return (key,) if changed else ()

    controller.watches(kymas, when=kyma_changed)
    controller.watches(watchers, to=all_kymas, when=watches_other)
    controller.receives(WatcherEventReceived, to=watcher_of)
    controller.receives(ClusterReachable, to=lambda signal: (key_of(signal),), priority=Priority.CHANGE)
    controller.receives(ClusterReplaced, to=lambda signal: (key_of(signal),), priority=Priority.CHANGE)
    controller.receives(CAsChanged, to=all_kymas, priority=Priority.RESYNC)
    object_rules = ObjectRuleReader.watched_by(manager) if settings.repair_on_events else None
    if object_rules is not None:
        manifests, sync_resources = object_rules.manifests, object_rules.sync_resources
        controller.watches(manifests, to=kymas_of, when=has_other_kinds, after=KINDS_SECONDS)
        controller.watches(sync_resources, to=kymas_of, when=has_other_kinds, after=KINDS_SECONDS)
        controller.watches(object_rules.policies.informer, to=all_kymas, when=is_switched)
    rules = ModuleRuleReader(manager.informer(MODULE_TEMPLATES), kinds)
    steps = WatcherSteps(
        manager,
        connections,
        kymas,
        watchers,
        rules,
        object_rules,
        certificates=leaf_store(manager, settings),
        cas=cas,
        deployment=settings.deployment,
        renewal_alarm=settings.renewal_alarm,
    )
    reconciler = WatcherReconciler(connections, steps, times)
    controller.reconciles(reconciler.reconcile, unforeseen=reconciler.report)

    def overdue() -> Iterator[str]:
        for kyma in kymas.list():
            state = controller.state(KYMAS.key_of(kyma))
            if state is not None and state.renewal_overdue and manager.sharding.owns(kyma.metadata.name):
                yield kyma.metadata.name

    manager.registry.register(AtScrape(lambda: renewal_metrics(overdue())))
    return controller


def leaf_store(manager: Manager, settings: WatcherSettings) -> LeafStore:
    """Return the store of the Watchers' certificates that the settings ask for."""
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS)
    count = certificates_issued(manager.registry).labels(settings.cert_management).inc
    common = (manager.client, secrets, manager.clock, settings.certificates)
    if settings.cert_management == BUILT_IN:
        return CertificateStore(*common, count=count)
    if settings.cert_management == GARDENER_CERTIFICATES.api_version:
        namespace = settings.issuer_namespace
        return GardenerStore(*common, issuer=settings.issuer, issuer_namespace=namespace, count=count)
    return CertManagerStore(*common, issuer=settings.issuer, count=count)


def key_of(signal: WatcherEventReceived | ClusterReachable | ClusterReplaced) -> ObjectKey:
    """Return the key of the Kyma that a signal names."""
    return ObjectKey(names.KCP_NAMESPACE, signal.kyma)


@dataclass(frozen=True, eq=False)
class WatcherReconciler:
    """Runs the steps for one Watcher, and reports their outcome."""

    connections: Connections
    steps: WatcherSteps
    times: WatcherTimes

    async def reconcile(self, key: ObjectKey, causes: Causes, state: WatcherState) -> Result:
        """Do what this Watcher needs. Raises KubeError or SkrAccessError after the condition has reported it."""
        kymas = self.steps.kymas
        kyma = kymas.get(key)
        if kyma is None or not is_managed(kyma):
            return Result()
        if causes.of(ClusterReplaced) or causes.overflowed:
            state.timers = state.timers.repair_now()
        try:
            done = await self._run(kyma, state)
        except (KubeError, SkrAccessError) as error:
            if kyma.metadata.being_deleted and isinstance(error, AccessSecretMissing):
                return Result()
            await self.steps.report(kymas.get(key) or kyma, failed(error), state)
            raise
        await self.steps.report(kymas.get(key) or kyma, done.status, state)
        return Result(requeue_after=done.requeue_after)

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.steps.kymas.get(key)
        if kyma is not None:
            await self.steps.report(kyma, failed(error))

    async def _run(self, kyma: Kyma, state: WatcherState) -> Done:
        async with self.connections.to(kyma.metadata.name) as skr:
            manager = self.steps.manager
            seen = WatcherSnapshot(kyma=kyma, now=manager.clock.monotonic(), times=self.times, timers=state.timers)
            apply, fence = partial(self.steps.apply, state=state, skr=skr), manager.sharding.check
            done = await run_steps(seen, plan=plan, apply=apply, is_done=is_done, fence=fence)
            state.timers = done.timers  # before anything is awaited: an event may change them meanwhile
            return done


def is_done(step: Step) -> TypeGuard[Done]:
    """Tell whether a step ends the reconcile."""
    return isinstance(step, Done)
