"""What the rules of a Kyma decide on: the caches at one moment, and what was read in its SKR."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

import msgspec

from kube_runtime import (
    Causes,
    Client,
    KindUnknown,
    Manager,
    NotFound,
    ObjectKey,
    ObjectUnreadable,
    Step,
    kind_is_gone,
)
from lifecycle_manager.contract.conditions import interval_for, is_introduced, namespace_problems, was_reached
from lifecycle_manager.contract.indexes import (
    BY_CHANNEL,
    BY_MODULE,
    BY_TEMPLATE,
    MANIFESTS_BY_KYMA,
    MODULE_CONFIGS_BY_KYMA,
    SYNC_RESOURCES_BY_KYMA,
)
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    DATED_RELEASE_METAS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    RAW_KYMAS,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.contract.signals import ClusterReplaced, ModuleConfigsWritten, ObjectChanged
from lifecycle_manager.kyma.crd import KymaCrd, KymaCrds
from lifecycle_manager.kyma.pull_secret import PullSecret, PullSecretCopy
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.options.kymas import KymaSettings
from lifecycle_manager.process.telemetry import policy_readable
from lifecycle_manager.rollout.schedule import Schedule, Timing
from lifecycle_manager.skr.announcement import Announcements, ObservedObject
from lifecycle_manager.skr.brake import RELEASED, Brake, DeletionBrake
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Kyma, KymaSpec, Manifest, ModuleConfig, ObjectMeta, SyncResource, names
from lifecycle_manager_api.conditions import NewCondition


@dataclass(frozen=True, slots=True)
class SkrView:
    """The Kyma CR in the SKR; None where there is none (or no CRD for it).

    Where it is not `is_readable` it has only its metadata, which is enough to delete it. `claimed_by` names another
    Kyma to which the SKR belongs; `read_again_after` says in how many seconds an announced change may be visible.
    """

    kyma: Kyma | None
    is_readable: bool = True
    claimed_by: str = ""
    read_again_after: float | None = None


@dataclass(eq=False, slots=True)
class KymaState:
    """What is remembered of one Kyma: changes that its SKR has to show yet, and how often in a row it was repeated.

    - `is_replaced`: its SKR is another cluster than before, and has whatever CRD that had
    - `namespace_problems`: why ModuleConfigs can't be written, by module; None until they were read from its status
    """

    announcements: Announcements = field(default_factory=Announcements)
    pull_secret: PullSecretCopy = field(default_factory=PullSecretCopy)
    repeats: int = 0
    is_replaced: bool = False
    namespace_problems: dict[str, str] | None = None

    def note_problems(self, kyma: Kyma, written: Iterable[ModuleConfigsWritten]) -> Mapping[str, str]:
        """Note whose ModuleConfigs can't be written, and return it; after a restart what the status says counts."""
        if self.namespace_problems is None:
            self.namespace_problems = namespace_problems(kyma)
        self.namespace_problems |= {each.module: each.problem for each in written}
        return dict(self.namespace_problems)


@dataclass(frozen=True, slots=True, kw_only=True)
class KymaSnapshot:
    """Everything that the rules decide on.

    - `skr`: None until it was read
    - `module_configs`, `sync_resources`: those in the namespaces of their modules
    - `crd`: that of KCP; its digest is empty where it can't be read
    - `installed_crd`: the digest of the CRD that this reconcile has installed; empty for an unknown one
    - `brake`: whether its deletion is held
    - `pull_secret`: None where there is none to copy
    - `repeats`: how often in a row the outcome was read at once
    - `namespace_problems`: why ModuleConfigs can't be written, by module; empty where they can
    - `failures`, `taken`: the steps of its deletion in this reconcile that failed, and why, and the others
    """

    timing: Timing
    kyma: Kyma
    offer: Offer
    crd: KymaCrd
    skr: SkrView | None = None
    installed_crd: str | None = None
    manifests: tuple[Manifest, ...] = ()
    module_configs: tuple[ModuleConfig, ...] = ()
    sync_resources: tuple[SyncResource, ...] = ()
    brake: Brake = RELEASED
    pull_secret: PullSecret | None = None
    repeats: int = 0
    namespace_problems: Mapping[str, str] = field(default_factory=dict)
    settings: KymaSettings = field(default_factory=KymaSettings)
    failures: tuple[tuple[Step, Exception], ...] = ()
    taken: tuple[Step, ...] = ()

    def failure_of(self, *steps: type[Step]) -> Exception | None:
        """Return the first failure of a step of these types."""
        return next((error for step, error in self.failures if isinstance(step, steps)), None)

    @property
    def interval_seconds(self) -> float:
        """The seconds until the next reconcile without a trigger."""
        if self.kyma.metadata.being_deleted:
            return self.settings.deletion_interval_seconds
        return interval_for(self.kyma, self.settings.interval_seconds)

    @property
    def is_known(self) -> bool:
        """Whether something may have been in the SKR before."""
        return is_introduced(self.kyma) or bool(self.manifests)

    @property
    def needs_crd(self) -> bool:
        """Whether the CRD in the SKR has to be replaced by the one of KCP."""
        return self.crd.digest not in ("", self.crd_in_skr)

    @property
    def crd_in_skr(self) -> str:
        """The hash of the CRD that the SKR has, as far as it is known; empty where it is not."""
        return self.kyma.status.records.kyma_crd if self.installed_crd is None else self.installed_crd

    @property
    def pull_secret_condition(self) -> NewCondition | None:
        """The condition of the image pull Secret; None where there is none to copy."""
        return self.pull_secret.condition if self.pull_secret is not None else None

    def module_of(self, manifest: Manifest) -> str:
        """Return the module of a Manifest, by the status where somebody has removed its label; empty for none."""
        listed = ((each.name, each.manifest) for each in self.kyma.status.modules)
        shown = (name for name, known in listed if known is not None and known.metadata.name == manifest.metadata.name)
        return module_of_manifest(manifest) or next(shown, "")

    def by_module(self, manifests: Iterable[Manifest]) -> dict[str, Manifest]:
        """Return Manifests by module, without those that nobody knows the module of."""
        return {module: each for each in manifests if (module := self.module_of(each))}

    def deletion_plus(self, timeout: timedelta | None) -> datetime | None:
        """Return when the Kyma has been deleted for so long; None for never."""
        since = self.kyma.metadata.deletion_timestamp
        return since + timeout if since is not None and timeout is not None else None


class KymaSnapshots:
    """Reads the snapshots of Kymas from the informers that the controller watches."""

    def __init__(self, manager: Manager, connections: Connections, offers: Offers, settings: KymaSettings) -> None:
        self.manager, self.connections, self.offers, self.settings = manager, connections, offers, settings
        self.kymas = manager.informer(KYMAS, indexes=(BY_MODULE, BY_CHANNEL, BY_TEMPLATE))
        self.releases = manager.informer(DATED_RELEASE_METAS)
        self.manifests = manager.informer(MANIFESTS, indexes=(MANIFESTS_BY_KYMA,))
        self.module_configs = manager.informer(MODULE_CONFIGS, namespace=None, indexes=(MODULE_CONFIGS_BY_KYMA,))
        self.sync_resources = manager.informer(SYNC_RESOURCES, namespace=None, indexes=(SYNC_RESOURCES_BY_KYMA,))
        self.policies = Policies.watched_by(manager)
        self.brake = DeletionBrake.watched_by(manager, connections, settings.brake)
        # Not required: SKRs have a CRD, and an installation with the rights of an earlier version can't read CRDs.
        selector = f"metadata.name={KYMAS.plural_name}"
        self.crds = KymaCrds(manager.informer(CUSTOM_RESOURCE_DEFINITIONS, field_selector=selector, required=False))
        name = settings.pull_secret
        self.pull_secrets = manager.informer(SECRETS, field_selector=f"metadata.name={name}") if name else None
        self.schedule = Schedule.watched_by(manager, offers, settings.rollout, policy_readable(manager.registry))

    def read(self, key: ObjectKey, causes: Causes, state: KymaState) -> KymaSnapshot | None:
        """Return what is known of a Kyma, None where it is gone."""
        kyma = self.kymas.get(key)
        if kyma is None:
            return None
        for change in causes.of(ObjectChanged):
            state.announcements.announce(change, now=self.manager.clock.monotonic())
        state.is_replaced |= causes.overflowed or bool(causes.of(ClusterReplaced))
        name = kyma.metadata.name
        configs = self.module_configs.by_index(MODULE_CONFIGS_BY_KYMA, name)
        resources = self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, name)
        manifests = self.manifests.by_index(MANIFESTS_BY_KYMA, name)
        has_objects = was_reached(kyma) or bool(manifests or resources)
        return KymaSnapshot(
            timing=self.schedule.timing(),
            kyma=kyma,
            offer=self.offers.current(),
            crd=self.crds.current(),
            installed_crd="" if state.is_replaced else None,
            manifests=manifests,
            module_configs=tuple(filter(self.policies.is_in_place, configs)),
            sync_resources=tuple(filter(self.policies.is_in_place, resources)),
            brake=self.brake.of(name, kyma, has_objects=has_objects),
            pull_secret=self._pull_secret(kyma, state),
            repeats=state.repeats,
            namespace_problems=state.note_problems(kyma, causes.of(ModuleConfigsWritten)),
            settings=self.settings,
        )

    def _pull_secret(self, kyma: Kyma, state: KymaState) -> PullSecret | None:
        if self.pull_secrets is None:
            return None
        name, now = self.settings.pull_secret, self.manager.clock.monotonic()
        secret = self.pull_secrets.get(ObjectKey(names.KCP_NAMESPACE, name))
        return PullSecret(name, secret, state.pull_secret, self.settings.interval_seconds, now).inherited(kyma)

    async def read_skr(
        self, skr: Client, seen: KymaSnapshot, state: KymaState, *, metadata_suffices: bool = False
    ) -> KymaSnapshot:
        """Return the snapshot with the Kyma CR of the SKR, and the Kyma that has claimed it. Raises KubeError.

        Without one there is no other object of the Lifecycle Manager.
        """
        view = await read_skr(skr, metadata_suffices=metadata_suffices)
        metadata = view.kyma.metadata if view.kyma is not None else None
        claimant = self._claimant(seen.kyma, metadata.annotations if metadata is not None else {})
        shown = ObservedObject()
        if metadata is not None:
            shown = ObservedObject(metadata.uid, metadata.resource_version or "", metadata.being_deleted)
        announced, now = state.announcements, self.manager.clock.monotonic()
        unseen = announced.settle(dict.fromkeys(announced.of(), shown), now=now)
        secret = seen.pull_secret
        if secret is not None and metadata is None:
            state.pull_secret = PullSecretCopy()
            secret = replace(secret, copy=state.pull_secret)
        return replace(seen, skr=SkrView(view.kyma, view.is_readable, claimant, unseen), pull_secret=secret)

    def _claimant(self, kyma: Kyma, annotations: Mapping[str, str]) -> str:
        """Return the Kyma to which an SKR belongs by the annotations of its Kyma CR, empty where it is free.

        That is another Kyma whose Secret leads there; users can't forge both.
        """
        owner = annotations.get(names.OWNED_BY) or annotations.get(names.DEPRECATED_OWNED_BY, "")
        namespace, _, name = owner.partition("/")
        if name == kyma.metadata.name or self.kymas.get(ObjectKey(namespace, name)) is None:
            return ""
        return name if self.connections.lead_to_the_same_cluster(kyma.metadata.name, name) else ""


async def read_skr(skr: Client, *, metadata_suffices: bool = False) -> SkrView:
    """Read the Kyma CR of an SKR. Raises KubeError.

    Users who change its CRD can make it unreadable, which does not matter where its metadata suffices.
    """
    try:
        kyma = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
        return SkrView(kyma)
    except NotFound:
        return SkrView(None)
    except KindUnknown:
        if not await kind_is_gone(skr, KYMAS):
            raise
        return SkrView(None)
    except ObjectUnreadable:
        if not metadata_suffices:
            raise
    try:
        document = await skr.get(RAW_KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
    except NotFound:
        return SkrView(None)
    metadata = msgspec.convert(document["metadata"], ObjectMeta)
    return SkrView(Kyma(metadata=metadata, spec=KymaSpec(channel="")), is_readable=False)
