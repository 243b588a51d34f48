"""Reconciles one Kyma: reads its SKR, decides, acts in the SKR, then in KCP."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime

from kube_runtime import ApiError, Causes, Client, Informer, KubeError, Manager, ObjectKey, Result
from lifecycle_manager.contract.options import (
    Count,
    Seconds,
    SecretName,
    deletion_interval_option,
    option,
    pull_secret_option,
)
from lifecycle_manager.indexes import MANIFESTS_BY_KYMA, MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.kyma.apply import KcpActions, SkrActions
from lifecycle_manager.kyma.crd import KymaCrd, KymaCrds
from lifecycle_manager.kyma.plan import (
    AddFinalizer,
    CreateSkrKyma,
    DeleteManifest,
    DeleteSkrKyma,
    InstallKymaCrd,
    ModuleAction,
    Plan,
    RemoveFinalizer,
    RemoveSkrFinalizer,
    needs_finalizer,
    plan,
    report,
)
from lifecycle_manager.kyma.pull_secret import PullSecretCopies, PullSecretState
from lifecycle_manager.kyma.snapshot import Patience, SkrView, Snapshot, read_skr
from lifecycle_manager.kyma.status import internal_error_status
from lifecycle_manager.kyma_conditions import interval_for, is_introduced
from lifecycle_manager.module_catalog import Offers
from lifecycle_manager.module_namespaces import ModuleNamespaces
from lifecycle_manager.rollout import RolloutSettings, Schedule
from lifecycle_manager.signals import ClusterReplaced
from lifecycle_manager.skr import (
    Announcements,
    ClusterClaimed,
    Connections,
    Seen,
    SkrAccessError,
    SkrFailure,
    failure_of,
)
from lifecycle_manager_api import Kyma, Manifest, ModuleConfig, State, SyncResource, names
from lifecycle_manager_api.conditions import NewCondition

REQUEUE_REASONS: Mapping[type[object], str] = {
    AddFinalizer: "labels_and_finalizers_update",
    InstallKymaCrd: "crds_sync",
    CreateSkrKyma: "initial_state_handling",
    DeleteSkrKyma: "remote_kyma_deletion",
    RemoveSkrFinalizer: "finalizers_removal_from_remote_kyma",
    RemoveFinalizer: "kyma_deletion",
}
"""Upstream's names in the metric of requeues, by what a reconcile does."""

MAX_REPEATS = 3
"""How often in a row the outcome is read at once. An SKR that reverts it each time has to wait after that."""

REVERTED_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class KymaSettings:
    """How often Kymas are reconciled without a trigger, also while they are being deleted, and how many at once.

    `pull_secret` is the name of the image pull Secret in KCP, empty for none.
    """

    interval_seconds: Seconds = option(
        240.0, "kyma-requeue-success-interval", "interval at which a Kyma is reconciled without an event"
    )
    deletion_interval_seconds: Seconds = deletion_interval_option()
    concurrency: Count = option(50, "max-concurrent-kyma-reconciles", "concurrent reconciles of Kymas")
    pull_secret: SecretName = pull_secret_option()
    patience: Patience = field(default_factory=Patience)
    rollout: RolloutSettings = field(default_factory=RolloutSettings)


@dataclass(eq=False, slots=True)
class KymaState:
    """What is remembered of one Kyma: changes that its SKR has to show yet, and how often in a row it was repeated."""

    announcements: Announcements = field(default_factory=Announcements)
    pull_secret: PullSecretState = field(default_factory=PullSecretState)
    repeats: int = 0


@dataclass(frozen=True, eq=False)
class KymaReconciler:
    """Brings one Kyma to the state that the users of its SKR want. The key is that of the Kyma in KCP."""

    manager: Manager
    connections: Connections
    kymas: Informer[Kyma]
    manifests: Informer[Manifest]
    module_configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    namespaces: ModuleNamespaces
    crds: KymaCrds
    pull_secret: PullSecretCopies
    offers: Offers
    schedule: Schedule
    settings: KymaSettings

    async def reconcile(self, key: ObjectKey, _: Causes, state: KymaState) -> Result:
        """Do what this Kyma needs next. Raises KubeError after its status says so.

        Missing access to its SKR is not an error here: a new access Secret triggers the Kyma.
        """
        kyma = self.kymas.get(key)
        if kyma is None:
            return Result()
        if kyma.metadata.is_paused and not kyma.metadata.being_deleted:
            return Result()  # not even its SKR is read
        if needs_finalizer(kyma):
            await self._in_kcp(kyma).carry_out((AddFinalizer(),))
            kyma = self.kymas.get(key) or kyma
        try:
            decided, unseen = await self._reconcile_skr(kyma, state)
        except (KubeError, SkrAccessError) as error:
            decided = plan(self._snapshot(kyma, failure_of(error), self.crds.current().digest))
            await self._in_kcp(kyma).carry_out(decided.in_kcp)
            if isinstance(error, KubeError):
                raise
            if isinstance(error, ClusterClaimed):
                return Result(self.settings.interval_seconds)  # nothing triggers once the other Kyma is gone
            return Result(self._seconds_until(decided.again), _reasons(kyma, decided))
        await self._in_kcp(kyma).carry_out(decided.in_kcp)
        result = self._result(kyma, decided, unseen=unseen, state=state)
        return replace(result, reasons=_reasons(kyma, decided))

    async def report(self, key: ObjectKey, error: Exception) -> None:
        """Report an unforeseen exception. Raises KubeError."""
        kyma = self.kymas.get(key)
        if kyma is not None:
            status = internal_error_status(kyma, failure_of(error), self.manager.clock.now())
            await self._in_kcp(kyma).carry_out(report(kyma, status))

    async def _reconcile_skr(self, kyma: Kyma, state: KymaState) -> tuple[Plan, float | None]:
        """Act in the SKR; return the plan, and in how many seconds an announced change may be visible."""
        async with self.connections.to(kyma.metadata.name) as skr:
            pending = state.announcements.of()
            view = await read_skr(skr, deleting=kyma.metadata.being_deleted)
            self._check_claim(kyma, view)
            now = self.manager.clock.monotonic()
            unseen = state.announcements.settle(dict.fromkeys(pending, _seen(view)), now=now)
            return await self._act_in_skr(skr, kyma, view, state=state), unseen

    async def _act_in_skr(self, skr: Client, kyma: Kyma, view: SkrView, *, state: KymaState) -> Plan:
        crd = self.crds.current()
        pull_secret = await self._sync_pull_secret(skr, kyma, view, state)
        seen = self._snapshot(kyma, view, crd.digest, pull_secret)
        decided = plan(seen)
        try:
            created = await self._carry_out_in_skr(skr, view, decided, crd)
            if created is not None:
                self._note_creation(seen, state)
                view = SkrView(created)
                pull_secret = await self._sync_pull_secret(skr, kyma, view, state)
                after = plan(replace(seen, skr=view, installed_crd=crd.digest, pull_secret=pull_secret))
                await self._carry_out_in_skr(skr, view, after, crd)
                decided = replace(after, in_skr=(*decided.in_skr, *after.in_skr))
        except ApiError:
            # Modules are changed as planned although the SKR refused what its users would see of it.
            changes = [action for action in decided.in_kcp if isinstance(action, ModuleAction)]
            with suppress(ApiError):  # reported in an Event, and retried with the rest
                await self._in_kcp(kyma).carry_out(changes)
            raise
        return decided

    async def _sync_pull_secret(self, skr: Client, kyma: Kyma, view: SkrView, state: KymaState) -> NewCondition | None:
        if kyma.metadata.being_deleted or names.KYMA_FINALIZER not in kyma.metadata.finalizers:
            return None
        if view.kyma is None:  # the namespace may be missing, too; it is copied once the Kyma CR is created
            state.pull_secret = PullSecretState()
            return None
        return await self.pull_secret.sync(kyma, skr, state.pull_secret, now=self.manager.clock.monotonic())

    async def _carry_out_in_skr(self, skr: Client, view: SkrView, decided: Plan, crd: KymaCrd) -> Kyma | None:
        """Carry out what is planned in the SKR; return the Kyma CR that was created, if any."""
        in_skr = SkrActions(skr, view.kyma, crd.document, self.manager.events, self.settings.pull_secret)
        created = [await in_skr.carry_out(action) for action in decided.in_skr]
        return next(filter(None, created), None)

    def _note_creation(self, seen: Snapshot, state: KymaState) -> None:
        """Note that the SKR had no Kyma CR: nothing that is recorded of it counts, unless the Kyma is new."""
        if (is_introduced(seen.kyma) or seen.manifests) and state.repeats < MAX_REPEATS:
            self.manager.publish(ClusterReplaced(seen.kyma.metadata.name))
        state.repeats += 1

    def _in_kcp(self, kyma: Kyma) -> KcpActions:
        return KcpActions(self.manager.client, kyma, self.kymas, self.manifests, self.manager.events)

    def _check_claim(self, kyma: Kyma, view: SkrView) -> None:
        """Raise ClusterClaimed where the SKR belongs to another Kyma.

        That is where its Kyma CR names another Kyma whose Secret leads there; users can't forge both.
        """
        annotations = view.kyma.metadata.annotations if view.kyma is not None else {}
        owner = annotations.get(names.OWNED_BY) or annotations.get(names.DEPRECATED_OWNED_BY, "")
        namespace, _, name = owner.partition("/")
        if name == kyma.metadata.name or self.kymas.get(ObjectKey(namespace, name)) is None:
            return
        if self.connections.lead_to_the_same_cluster(kyma.metadata.name, name):
            raise ClusterClaimed(kyma.metadata.name, name)

    def _result(self, kyma: Kyma, decided: Plan, *, unseen: float | None, state: KymaState) -> Result:
        if decided.at_once:
            state.repeats += 1
            return Result(requeue_after=0.0 if state.repeats <= MAX_REPEATS else REVERTED_SECONDS)
        if not any(isinstance(action, CreateSkrKyma) for action in decided.in_skr):
            state.repeats = 0
        deleting, settings = kyma.metadata.being_deleted, self.settings
        seconds = settings.deletion_interval_seconds if deleting else interval_for(kyma, settings.interval_seconds)
        retry = self.pull_secret.seconds_until_retry(state.pull_secret, now=self.manager.clock.monotonic())
        times = (seconds, self._seconds_until(decided.again), unseen, retry)
        return Result(requeue_after=min(each for each in times if each is not None))

    def _seconds_until(self, when: datetime | None) -> float | None:
        return max((when - self.manager.clock.now()).total_seconds(), 0.0) if when is not None else None

    def _snapshot(
        self, kyma: Kyma, skr: SkrView | SkrFailure, crd_hash: str, pull_secret: NewCondition | None = None
    ) -> Snapshot:
        name, assignment = kyma.metadata.name, self.namespaces.assignment()
        configs = self.module_configs.by_index(MODULE_CONFIGS_BY_KYMA, name)
        resources = self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, name)
        return Snapshot(
            timing=self.schedule.timing(),
            kyma=kyma,
            offer=self.offers.current(),
            skr=skr,
            crd_hash=crd_hash,
            manifests=self.manifests.by_index(MANIFESTS_BY_KYMA, name),
            module_configs=tuple(filter(assignment.holds, configs)),
            sync_resources=tuple(filter(assignment.holds, resources)),
            assignment=assignment,
            patience=self.settings.patience,
            pull_secret=pull_secret,
        )


def _reasons(kyma: Kyma, decided: Plan) -> tuple[str, ...]:
    actions = (*decided.in_skr, *decided.in_kcp)
    named = [name for each in actions if (name := REQUEUE_REASONS.get(type(each))) is not None]
    if kyma.metadata.being_deleted and any(isinstance(each, DeleteManifest) for each in actions):
        named.append("manifest_crs_cleanup")
    if kyma.metadata.being_deleted and kyma.status.state is not State.DELETING:
        named.append("kyma_status_update_to_deleting")
    return tuple(named)


def _seen(view: SkrView) -> Seen:
    if view.kyma is None:
        return Seen()
    metadata = view.kyma.metadata
    return Seen(metadata.uid, metadata.resource_version or "", metadata.being_deleted)
