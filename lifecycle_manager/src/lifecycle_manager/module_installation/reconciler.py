"""Ties the rules of a Manifest to its key: has the module in its cluster, or out of it, and reports."""

import random
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import Any, Literal, assert_never

import msgspec
import structlog

from kube_runtime import (
    Applier,
    Client,
    EventRecorder,
    Informer,
    InventoryEntry,
    KubeError,
    ObjectKey,
    Result,
)
from lifecycle_manager.clock import utc_now
from lifecycle_manager.kcp_writes import let_go, set_finalizers, write_status
from lifecycle_manager.module_catalog import Offers, kyma_of_manifest, module_of_manifest
from lifecycle_manager.module_installation import installation, removal, sharing
from lifecycle_manager.module_installation import plan as planned
from lifecycle_manager.module_installation import status as told
from lifecycle_manager.module_installation.logins import Logins
from lifecycle_manager.module_installation.module_cr import default_cr
from lifecycle_manager.module_installation.neighbours import Neighbours
from lifecycle_manager.module_installation.rendering import Rendering, Renderings
from lifecycle_manager.oci import ObjectStore, Source, SourceAwaited, SourceError
from lifecycle_manager.resources import FIELD_MANAGER, MANIFESTS
from lifecycle_manager.skr import (
    AccessSecretMissing,
    Announcements,
    Connections,
    ObjectReference,
    SkrAccessError,
    failure_of,
)
from lifecycle_manager.skr.announcement import Seen as SeenObject
from lifecycle_manager_api import CustomStateCheck, Manifest, ManifestStatus, State, find, names

log = structlog.get_logger("manifest")

LONGEST_BUSY_SECONDS = 30.0


class RecordingFailed(Exception):
    """What is about to be applied could not be recorded in the control plane, so nothing was applied."""


@dataclass(eq=False, slots=True)
class _Known:
    """What this process knows of one Manifest: what it has in the cluster, and when all of that was last looked at.

    `settled` is the rendering that is there as it should be, empty where something is left to do. `is_taken_over` where
    the Manifest says that all was well before this process began.
    """

    client: Client
    applier: Applier
    inventory: tuple[InventoryEntry, ...] = ()
    has_namespace: bool = False
    settled: str = ""
    checked_at: float = float("-inf")
    is_taken_over: bool = False


@dataclass(eq=False)
class ManifestReconciler:
    """Has the module of one Manifest in its cluster as it is wanted."""

    kcp: Client
    connections: Connections
    manifests: Informer[Manifest]
    offers: Offers
    store: ObjectStore
    logins: Logins
    events: EventRecorder
    interval_seconds: float = 300.0
    busy_seconds: float = 2.0
    namespace: str = names.SKR_NAMESPACE
    """Namespace in the clusters for default Module CRs and objects of modules that name none."""
    clock: Callable[[], datetime] = utc_now
    seconds: Callable[[], float] = time.monotonic
    announcements: Announcements[ObjectKey] = field(default_factory=Announcements)
    on_woken: Callable[[ObjectKey], None] = lambda _: None
    """Called with the key of a Manifest that is to be looked at, for another one has left objects to it."""
    _renderings: Renderings = field(init=False)
    _neighbours: Neighbours = field(init=False)
    _known: dict[ObjectKey, _Known] = field(default_factory=dict, init=False)
    _woken: set[ObjectKey] = field(default_factory=set, init=False)
    _written: dict[ObjectKey, ManifestStatus] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._renderings = Renderings(self.namespace)
        self._neighbours = Neighbours(self.manifests, self._brought, self._wake_neighbour)

    def wake(self, key: ObjectKey) -> None:
        """Have the next reconcile look at every object of a module: somebody may have changed one."""
        self._woken.add(key)

    def forget(self, key: ObjectKey) -> None:
        """Drop what this process remembers of it: it is gone, or another process has looked after it meanwhile."""
        self._known.pop(key, None)
        self._written.pop(key, None)
        self._neighbours.forget(key)

    async def reconcile(self, key: ObjectKey) -> Result:
        """Do what this Manifest needs next. Raises KubeError or SkrAccessError after its status says so."""
        manifest = self.manifests.cache.get(key)
        if manifest is None:
            self.forget(key)
            self._woken.discard(key)
            self.announcements.forget(key)
            return Result()
        step = planned.plan(manifest, self._brought(key))
        match step:
            case planned.LeaveAlone():
                self.wake(key)  # nobody has looked after it in the meantime
                return Result()
            case planned.LetGo():
                await self._let_go(manifest)
                return Result()
            case planned.Refuse(reason, message):
                inventory = self._may_be_there(key, planned.inventory_of(manifest))
                await self._write(manifest, told.refused(manifest, inventory, reason, message, self.clock()))
                return Result()
            case planned.Install():
                return await self._install(key, manifest, step)
            case planned.Remove():
                return await self._remove(key, manifest, step)
            case _:
                assert_never(step)

    async def _install(self, key: ObjectKey, manifest: Manifest, step: planned.Install) -> Result:
        try:
            rendering = await self._rendering(manifest, step.source)
        except SourceError as error:
            tell = told.awaited if isinstance(error, SourceAwaited) else told.refused
            await self._write(manifest, tell(manifest, step.inventory, error.reason, str(error), self.clock()))
            return Result(requeue_after=error.again_after_seconds)
        try:
            async with self.connections.to(step.kyma) as skr:
                known = self._knowledge(key, manifest, skr)
                manifest, applied = await self._apply(key, manifest, known, rendering, step.inventory)
                if applied is not None and applied.result.failed:
                    seen = applied.seen()
                else:
                    # Closely, too, where the module was not ready: what runs it may be the reason.
                    closely = applied is not None or manifest.status.state is not State.READY
                    lives = applied.lives if applied is not None else {}
                    seen = await installation.look(
                        skr,
                        manifest,
                        known.inventory,
                        closely=closely,
                        default_namespace=self.namespace,
                        lives=lives,
                    )
                    seen = _together(seen, applied)
        except (KubeError, SkrAccessError) as error:
            await self._tell_failure(manifest, self._may_be_there(key, step.inventory), error)
            raise
        status = told.installed(manifest, seen, self._checks(manifest), self.clock())
        await self._write(manifest, status)
        if any(manager.readiness is None for manager in seen.managers):
            self.wake(key)  # so that it is there again after the next look
        if applied is not None:
            applied.result.raise_first_failure()
        return Result(requeue_after=self._until_shown(key, seen, applied) or self._pause(status, known))

    def _until_shown(self, key: ObjectKey, seen: told.Seen, applied: installation.Applied | None) -> float | None:
        """Return when to look again for what events spoke of and this round has not shown; None where it has."""
        announced = self.announcements.of(key)
        if not announced:
            return None
        shown = _shown(seen, applied)
        wait = self.announcements.settle(key, {each: _as_seen(shown.get(each.object)) for each in announced})
        if wait is not None:
            self.wake(key)
        return wait

    async def _apply(
        self,
        key: ObjectKey,
        manifest: Manifest,
        known: _Known,
        rendering: Rendering,
        inventory: tuple[InventoryEntry, ...],
    ) -> tuple[Manifest, installation.Applied | None]:
        """Have the objects in the cluster, unless they are known to be there; return the Manifest as it is then."""
        now = self.seconds()
        if known.is_taken_over:
            known.is_taken_over, known.settled = False, rendering.fingerprint
        due = key in self._woken or now - known.checked_at >= self.interval_seconds
        if known.settled == rendering.fingerprint and not due:
            return manifest, None
        manifest = await self._hold(manifest)
        wanted = {*(await known.applier.intended(rendering.of_known_kinds, ())), *rendering.own_kinds}
        identities = {each.identity for each in wanted}
        leaving = [each for each in inventory if each.identity not in identities]
        manifest = await self._record_intent(manifest, {*leaving, *wanted})
        known.inventory = tuple(sorted({*leaving, *wanted}))
        self._neighbours.take_back(key, identities)
        known.inventory = (*(await self._neighbours.leave(manifest, known.client, leaving)), *sorted(wanted))
        if due:
            self._woken.discard(key)  # whoever wakes it from here on may have seen something newer
        if due or not known.has_namespace:
            await self._make_namespace(manifest, known)
        others = self._neighbours.of(manifest)
        applied = await installation.apply(
            known.client,
            known.applier,
            rendering,
            known.inventory,
            new=wanted - set(inventory),
            recheck=due,
            leave=lambda entry, live: sharing.is_looked_after(entry, live, others),
        )
        known.inventory = applied.inventory
        self._neighbours.tell(manifest, set(leaving) - set(applied.inventory))
        known.settled = rendering.fingerprint if applied.is_settled else ""
        if due:
            known.checked_at = now
        if applied.result.changed:
            log.info(
                "module applied",
                kyma=kyma_of_manifest(manifest),
                module=module_of_manifest(manifest),
                version=manifest.spec.version,
                objects=len(applied.inventory),
                failed=len(applied.result.failed),
            )
        return manifest, applied

    async def _remove(self, key: ObjectKey, manifest: Manifest, step: planned.Remove) -> Result:
        try:
            async with self.connections.to(step.kyma) as skr:
                known = self._knowledge(key, manifest, skr)
                left = await removal.remove(
                    skr,
                    known.applier,
                    manifest,
                    step.inventory,
                    self._neighbours.of(manifest),
                    partial(self._neighbours.leave, manifest, skr),
                    default_namespace=self.namespace,
                )
                self._neighbours.tell(manifest, {*step.inventory} - {*(left.inventory if left is not None else ())})
        except AccessSecretMissing:
            left = None  # the cluster is gone, and its objects with it
        except (KubeError, SkrAccessError) as error:
            await self._tell_failure(manifest, step.inventory, error)
            raise
        if left is None:
            await self._let_go(manifest)
            return Result()
        known.inventory = left.inventory
        status = told.leaving(manifest, left, self.clock())
        await self._write(manifest, status)
        return Result(requeue_after=self._pause(status, known))

    async def _make_namespace(self, manifest: Manifest, known: _Known) -> None:
        """Make the namespace of what names none, unless that is ours, which is there, or nothing is to go into it."""
        default = default_cr(manifest, self.namespace)
        used = {*(each.namespace for each in known.inventory), default.namespace if default is not None else ""}
        if self.namespace != names.SKR_NAMESPACE and self.namespace in used:
            await installation.make_namespace(known.client, self.namespace)
            known.has_namespace = True

    def _brought(self, key: ObjectKey) -> tuple[InventoryEntry, ...]:
        known = self._known.get(key)
        return known.inventory if known is not None else ()

    def _wake_neighbour(self, key: ObjectKey) -> None:
        self.wake(key)
        self.on_woken(key)

    def _may_be_there(self, key: ObjectKey, inventory: Collection[InventoryEntry]) -> tuple[InventoryEntry, ...]:
        """Return an inventory together with what was written down since: none of it may be forgotten by a failure."""
        return tuple(sorted({*inventory, *self._brought(key)}))

    async def _rendering(self, manifest: Manifest, source: Source) -> Rendering:
        login_for, whose = partial(self.logins.login, manifest), self.logins.whose(manifest)
        objects = await self.store.objects(source, login_for, whose)
        return self._renderings.of(objects, manifest.spec.localized_images)

    def _checks(self, manifest: Manifest) -> tuple[CustomStateCheck, ...]:
        template = self.offers.current().installed(module_of_manifest(manifest), manifest.spec.version)
        return template.spec.custom_state_check if template is not None else ()

    def _knowledge(self, key: ObjectKey, manifest: Manifest, skr: Client) -> _Known:
        """Return what is known of a Manifest's cluster; a new connection may lead to another one."""
        known = self._known.get(key)
        if known is not None and known.client is skr:
            return known
        applier = Applier(
            skr,
            field_manager=FIELD_MANAGER,
            labels={
                names.MANAGED_BY: names.LIFECYCLE_MANAGER,
                names.WATCHED_BY: "kyma",
                names.MODULE_NAME: module_of_manifest(manifest),
            },
            annotations={names.OWNED_BY: str(key)},
            default_namespace=self.namespace,
        )
        made = _Known(skr, applier)
        if known is not None:
            made.inventory = known.inventory
        if known is None and _was_in_order(manifest):
            # A new process looks at every object some time within the interval, not at the whole fleet's at once.
            made.is_taken_over, made.inventory = True, planned.inventory_of(manifest)
            made.checked_at = self.seconds() - self.interval_seconds * random.random()  # noqa: S311 - no secret
        self._known[key] = made
        return made

    def _pause(self, status: ManifestStatus, known: _Known) -> float:
        """Return when to look again: soon at what is on its way, less often the longer it does not get anywhere."""
        if status.state is State.READY:
            return max(known.checked_at + self.interval_seconds - self.seconds(), self.busy_seconds)
        last = status.last_operation
        since = last.last_update_time if last is not None else None
        age = (self.clock() - since).total_seconds() if since is not None else 0.0
        return min(max(self.busy_seconds, age / 4), max(LONGEST_BUSY_SECONDS, self.busy_seconds))

    async def _hold(self, manifest: Manifest) -> Manifest:
        metadata = manifest.metadata
        if names.MANIFEST_FINALIZER in metadata.finalizers:
            return manifest
        finalizers = (*metadata.finalizers, names.MANIFEST_FINALIZER)
        await self._record(set_finalizers(self.kcp, MANIFESTS, metadata, finalizers))
        return msgspec.structs.replace(manifest, metadata=msgspec.structs.replace(metadata, finalizers=finalizers))

    async def _record_intent(self, manifest: Manifest, intended: Collection[InventoryEntry]) -> Manifest:
        """Write down what is about to be applied; return the Manifest as it is then. Raises RecordingFailed."""
        if {each.identity for each in intended} <= {each.identity for each in planned.inventory_of(manifest)}:
            return manifest
        status = told.begun(manifest, sorted(intended))
        await self._record(self._write(manifest, status))
        return msgspec.structs.replace(manifest, status=status)

    async def _record(self, writing: Any) -> None:
        try:
            await writing
        except KubeError as error:
            raise RecordingFailed(f"the control plane did not take what is about to be applied: {error}") from error

    async def _tell_failure(self, manifest: Manifest, inventory: Collection[InventoryEntry], error: Exception) -> None:
        failure = failure_of(error)
        status = told.unreachable(manifest, inventory, failure.reason, failure.message, self.clock())
        await self._write(manifest, status)

    async def _let_go(self, manifest: Manifest) -> None:
        await let_go(self.kcp, MANIFESTS, manifest.metadata, names.MANIFEST_FINALIZER)

    async def _write(self, manifest: Manifest, status: ManifestStatus) -> None:
        """Write a status where it says something new, and tell of it. What the cache has may be older than that."""
        metadata = manifest.metadata
        key = ObjectKey(metadata.namespace, metadata.name)
        if status == manifest.status == self._written.get(key, status):
            return
        await write_status(self.kcp, MANIFESTS, metadata, status)
        self._written[key] = status
        self._tell(manifest, status)

    def _tell(self, manifest: Manifest, status: ManifestStatus) -> None:
        """Record an Event where what the Manifest says of itself is new."""
        before, ready = (find(each.conditions, told.READY) for each in (manifest.status, status))
        if ready is None or (before is not None and (before.status, before.reason) == (ready.status, ready.reason)):
            return
        bad = status.state in {State.ERROR, State.WARNING}
        kind: Literal["Normal", "Warning"] = "Warning" if bad else "Normal"
        self.events.record(MANIFESTS, manifest, ready.reason, ready.message, type=kind, action="Install")


def _was_in_order(manifest: Manifest) -> bool:
    status = manifest.status
    return status.state is State.READY and status.observed_generation == manifest.metadata.generation


def _shown(seen: told.Seen, applied: installation.Applied | None) -> dict[ObjectReference, Mapping[str, Any]]:
    """Return the objects that a round has read."""
    outcomes = applied.result.outcomes if applied is not None else ()
    found: dict[ObjectReference, Mapping[str, Any]] = {
        ObjectReference(each.entry.group, each.entry.kind, each.entry.namespace, each.entry.name): each.live
        for each in outcomes
        if each.live is not None
    }
    view = seen.module_cr
    if view is not None and view.live:
        wanted = view.wanted
        found[ObjectReference(wanted.group, wanted.kind, wanted.namespace, wanted.name)] = view.live
    return found


def _as_seen(live: Mapping[str, Any] | None) -> SeenObject:
    if live is None:
        return SeenObject()
    metadata = live["metadata"]
    return SeenObject(metadata["uid"], metadata["resourceVersion"], bool(metadata.get("deletionTimestamp")))


def _together(seen: told.Seen, applied: installation.Applied | None) -> told.Seen:
    """Return what a look has shown together with what came of the apply before it."""
    if applied is None:
        return seen
    before = applied.seen()
    return told.Seen(before.inventory, before.failures, before.going, before.held, seen.managers, seen.module_cr)
