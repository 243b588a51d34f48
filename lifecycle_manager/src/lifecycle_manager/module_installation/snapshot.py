"""What a reconcile of a Manifest knows: read once at its beginning, then with what it has found out."""

import math
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from kube_runtime import (
    ApiError,
    ApplyResult,
    Causes,
    Clock,
    Informer,
    InventoryEntry,
    JsonObject,
    ObjectKey,
    Request,
    Resource,
)
from kyma_oci import SourceError
from lifecycle_manager.contract.indexes import MODULE_CONFIGS_BY_KYMA, SYNC_RESOURCES_BY_KYMA
from lifecycle_manager.contract.offsets import until_offset
from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, ReadScope
from lifecycle_manager.contract.verdict import in_use_message
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.module_catalog.manifests import is_mandatory_manifest, kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation.module_cr import CrView, DefaultCr, default_cr
from lifecycle_manager.module_installation.reading import KindObject, ManagerView
from lifecycle_manager.module_installation.rendering import RenderedModule
from lifecycle_manager.module_sources.store import SourceAwaited
from lifecycle_manager.object_set.apply import SkrObjects
from lifecycle_manager.object_set.inventory import (
    Identity,
    found_before,
    identities,
    inventory_of,
    is_crd,
    known_inventory,
)
from lifecycle_manager.object_set.ownership import Holder
from lifecycle_manager.object_set.policy import Policies
from lifecycle_manager.object_set.reporting import set_owner
from lifecycle_manager.object_set.snapshot import SetSnapshot
from lifecycle_manager.object_set.state import SetState
from lifecycle_manager.options.modules import ManifestSettings, Options
from lifecycle_manager.process.telemetry import LongReconciles
from lifecycle_manager.skr.brake import DeletionBrake
from lifecycle_manager_api import CustomStateCheck, Kyma, Manifest, ModuleConfig, State, SyncResource, find, names

RESOURCES = "Resources"
MODULE_CR = "ModuleCR"
"""Conditions of a Manifest, see `status`."""
Concern = Literal["module-cr", "of-its-kind", "object"]


@dataclass(frozen=True, slots=True)
class Removal:
    """What a removal has found and done.

    - `kinds`: the kinds of the module; `default_crs`: the default Module CRs that exist
    - `refused`: why a default Module CR can't be deleted, or not without its finalizers
    - `manager_missing`: nothing that runs the module exists; None before that is known
    - `users_objects`: objects of the module's kinds that are not its own; None before they were listed
    - `objects_deleted`: all objects but CRDs are deleted; `upgraded`: the version that the Manifest names was brought
    """

    kinds: tuple[Resource[JsonObject], ...]
    default_crs: tuple[tuple[KindObject, JsonObject], ...] = ()
    refused: ApiError | None = None
    manager_missing: bool | None = None
    users_objects: tuple[str, ...] | None = None
    objects_deleted: bool = False
    upgraded: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestSnapshot(SetSnapshot[Manifest]):
    """One Manifest with all that its rules depend on.

    - `before`: the inventory at the beginning of the reconcile
    - `announced`: the objects of the inventory that events reported
    - `next_check`: when every object is to be read, once that is known; monotonic, as `seconds`
    - `others`: the other modules of the SKR, as read last
    - `seconds_until_check`: for how long a new process may rely on the status, if nothing triggered the reconcile
    - `unread`: why objects of the module's kinds can't be read, as nobody converts them
    - `applied`, `removed`: the results of an apply with its pruning, and of a deletion
    - `module_configs`: those of the module, while it is being removed from a Kyma that stays
    - `configured_in_use`: why objects of its SyncResources are not deleted, as users have objects that would go along
    - `is_named`: the status of the Kyma names the Manifest, or it installs a mandatory module
    """

    seconds: float
    options: Options = Options()
    announced: frozenset[Identity] = frozenset()
    checks: tuple[CustomStateCheck, ...] = ()
    rendering: RenderedModule | None = None
    source_error: SourceError | None = None
    next_check: float | None = None
    managers: tuple[ManagerView, ...] | None = None
    module_cr: CrView | None = None
    removal: Removal | None = None
    unread: ApiError | None = None
    module_configs: tuple[ModuleConfig, ...] = ()
    configured_in_use: tuple[str, ...] = ()
    is_named: bool = True
    seconds_until_check: float = 0.0
    before: tuple[InventoryEntry, ...] = ()
    others: tuple[Holder, ...] = ()
    applied: ApplyResult | None = None
    removed: ApplyResult | None = None

    @property
    def default_cr(self) -> DefaultCr | None:
        """The default Module CR that the module has; None where it has none."""
        return default_cr(self.resource, self.options.namespace)

    @property
    def has_new_kind(self) -> bool:
        """Whether this round has created the CRD of the default Module CR: no object of that kind was there before."""
        wanted, outcomes = self.default_cr, self.applied.outcomes if self.applied is not None else ()
        created = (each.live for each in outcomes if each.action == "created" and is_crd(each.entry) and each.live)
        specs = (live["spec"] for live in created) if wanted is not None else ()
        return wanted is not None and any(
            (each["group"], each["names"]["kind"]) == (wanted.group, wanted.kind) for each in specs
        )

    @property
    def lives(self) -> Mapping[Identity, JsonObject]:
        """The objects as the apply of this round has read them."""
        outcomes = self.applied.outcomes if self.applied is not None else ()
        return {each.entry.identity: each.live for each in outcomes if each.live is not None}


@dataclass(eq=False, slots=True)
class ManifestState(SetState):
    """What this process remembers of a Manifest from reconcile to reconcile.

    - `released`: what it has handed over to other modules, from before the status says so
    - `settled`: the rendering that is completely applied; empty where something is left to do
    - `check_all`: every object is to be read: somebody may have changed one; so it is from `next_check` on
    """

    released: frozenset[Identity] = frozenset()
    settled: str = ""
    check_all: bool = False
    next_check: float = float("-inf")

    def renew(self, objects: SkrObjects) -> None:
        self.objects, self.settled, self.next_check = objects, "", float("-inf")


ManifestRequest = Request[ObjectKey, ManifestState]


@dataclass(frozen=True, eq=False)
class ManifestReader:
    manifests: Informer[Manifest]
    kymas: Informer[Kyma]
    brake: DeletionBrake
    offers: Offers
    policies: Policies
    module_configs: Informer[ModuleConfig]
    sync_resources: Informer[SyncResource]
    clock: Clock
    options: ManifestSettings
    contested: Callable[[Manifest, str], None]
    durations: LongReconciles

    async def read(self, request: ManifestRequest) -> ManifestSnapshot | None:
        """Return what is known of a Manifest; None where there is none."""
        await request.shared("duration", partial(self._measured, request.key))
        manifest, state = self.manifests.get(request.key), request.state
        if manifest is None:
            return None
        self._note(request.causes, manifest, state)
        now, seconds = self.clock.now(), self.clock.monotonic()
        if state.objects is None and math.isinf(state.next_check) and was_ready(manifest):
            # A new process reads every object some time within the interval, not those of the whole fleet at once.
            wait = until_offset(kyma_of_manifest(manifest), self.options.interval_seconds, now=now)
            state.next_check = seconds + wait
        is_relied_on = state.objects is None and not (request.causes or state.check_all)
        inventory, announced = known_inventory(manifest, state.inventory), state.announced()
        kyma, module = self._kyma(manifest), module_of_manifest(manifest)
        is_removed_from = manifest.metadata.being_deleted and kyma is not None and not kyma.metadata.being_deleted
        named = (kyma_of_manifest(manifest), module)
        template = self.offers.current().installed(module, manifest.spec.version)
        is_held_by_others = bool({*manifest.metadata.finalizers} - {names.MANIFEST_FINALIZER})
        may_be_forgotten = is_held_by_others or has_objects(manifest, inventory)
        return ManifestSnapshot(
            resource=manifest,
            now=now,
            seconds=seconds,
            inventory=inventory,
            before=inventory,
            found=found_before(manifest),
            options=self.options,
            pull_secret=self.options.pull_secret,
            default_namespace=self.options.namespace,
            rules=self.policies.of_manifests(module, restricted=self.options.restricted),
            checks=template.spec.custom_state_check if template is not None else (),
            announced=announced & identities(inventory) if announced else announced,
            brake=self.brake.of(kyma_of_manifest(manifest), manifest, has_objects=may_be_forgotten),
            module_configs=self._configs(*named) if is_removed_from else (),
            configured_in_use=self._in_use(*named) if is_removed_from else (),
            is_named=self._is_named(manifest),
            seconds_until_check=max(state.next_check - seconds, 0.0) if is_relied_on else 0.0,
        )

    @asynccontextmanager
    async def _measured(self, key: ObjectKey) -> AsyncIterator[None]:
        began = self.clock.monotonic()
        try:
            yield
        finally:
            self.durations.observe(key.name, self.clock.monotonic() - began)

    def _note(self, causes: Causes, manifest: Manifest, state: ManifestState) -> None:
        """Fold what triggered the reconcile into the state: which objects to read, and what the reads have to show."""
        if causes.overflowed or ReadScope.EVERYTHING in causes:
            state.check_all = True
        for change in causes.of(ObjectChanged):
            part = affected_part(manifest, change.reference, self.options.namespace)
            if part is None or part == "of-its-kind":
                continue
            contested = partial(self.contested, manifest)
            if not state.note([change], now=self.clock.monotonic(), contested=contested, is_free=part == "module-cr"):
                state.check_all = True

    def _configs(self, kyma: str, module: str) -> tuple[ModuleConfig, ...]:
        found = self.module_configs.by_index(MODULE_CONFIGS_BY_KYMA, kyma)
        return tuple(each for each in found if each.spec.module == module and self.policies.is_in_place(each))

    def _in_use(self, kyma: str, module: str) -> tuple[str, ...]:
        found = self.sync_resources.by_index(SYNC_RESOURCES_BY_KYMA, kyma)
        own = (each for each in found if each.spec.module == module and self.policies.is_in_place(each))
        return tuple(sorted(filter(None, map(in_use_message, own))))

    def _kyma(self, manifest: Manifest) -> Kyma | None:
        return self.kymas.get(ObjectKey(manifest.metadata.namespace, kyma_of_manifest(manifest)))

    def _is_named(self, manifest: Manifest) -> bool:
        kyma = self._kyma(manifest)
        named = (each.manifest.metadata.name for each in kyma.status.modules if each.manifest) if kyma else ()
        return is_mandatory_manifest(manifest) or manifest.metadata.name in named


def affected_part(
    manifest: Manifest, changed: ObjectReference, default_namespace: str = names.SKR_NAMESPACE
) -> Concern | None:
    """Return what an object is to a module: its default Module CR, another of its kind, one of its objects, or None."""
    wanted = default_cr(manifest, default_namespace)
    if wanted is not None and (wanted.group, wanted.kind) == (changed.group, changed.kind):
        same = (wanted.namespace, wanted.name) == (changed.namespace, changed.name)
        return "module-cr" if same else "of-its-kind"
    return "object" if tuple(changed) in {each.identity for each in inventory_of(manifest)} else None


def has_objects(manifest: Manifest, inventory: Collection[InventoryEntry]) -> bool:
    """Tell whether a Manifest has something in the SKR, so that its removal begins there."""
    created = find(manifest.status.conditions, MODULE_CR)
    return bool(inventory) or (created is not None and created.status == "True")


def was_ready(manifest: Manifest) -> bool:
    """Tell whether a module is in the cluster as its Manifest wants it. Its deletion is a generation of its own."""
    status, metadata = manifest.status, manifest.metadata
    return status.state is State.READY and status.observed_generation == metadata.generation - metadata.being_deleted


def is_left_alone(manifest: Manifest) -> bool:
    metadata = manifest.metadata
    return names.IS_UNMANAGED in metadata.annotations or metadata.is_paused


def holder(manifest: Manifest, remembered: Iterable[InventoryEntry], released: Collection[Identity]) -> Holder | None:
    """Return a Manifest as a holder of its objects; None where it is being deleted.

    `remembered` is what this process has applied and `released` what it has handed over, beyond what the status says.
    """
    if manifest.metadata.being_deleted:
        return None
    has = identities((*inventory_of(manifest), *remembered)) - {*released}
    created, resources = manifest.metadata.creation_timestamp, find(manifest.status.conditions, RESOURCES)
    is_awaited = resources is not None and resources.reason == SourceAwaited.reason
    is_changing = is_awaited or manifest.status.observed_generation != manifest.metadata.generation
    manages = not is_left_alone(manifest)
    return Holder(set_owner(manifest), has, manages=manages, created=created, is_changing=manages and is_changing)


def is_being_deleted(live: Mapping[str, Any]) -> bool:
    return bool(live["metadata"].get("deletionTimestamp"))


def has_finalizers(live: Mapping[str, Any]) -> bool:
    return bool(live["metadata"].get("finalizers"))
