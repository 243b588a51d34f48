"""The status of a Manifest. Pure functions, and the reasons of its conditions.

`Resources` says whether the objects are in the cluster, `ModuleCR` which default Module CR was created, `Installation`
whether the module runs; `Ready` sums them up.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kube_runtime import InventoryEntry, Readiness
from kyma_oci import SourceError
from lifecycle_manager.contract.conditions import MODULE_CRS_IN_USE
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.verdict import OBJECTS_IN_USE
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.state_checks import PRECEDENCE, state_of
from lifecycle_manager.object_set.inventory import Identity, among, found_message, inventory_of, references_to
from lifecycle_manager.object_set.reporting import READY, with_conditions
from lifecycle_manager.skr import SkrFailure
from lifecycle_manager_api import (
    ConditionStatus,
    CustomStateCheck,
    Manifest,
    ManifestStatus,
    ReadyVersion,
    State,
    find,
)
from lifecycle_manager_api.conditions import NewCondition

RESOURCES = "Resources"
INSTALLATION = "Installation"
MODULE_CR = "ModuleCR"

APPLIED = "Applied"
APPLY_FAILED = "ApplyFailed"
DELETING = "Deleting"
KYMA_UNNAMED = "KymaUnnamed"
MANAGER_FAILED = "ManagerFailed"
MANAGER_MISSING = "ManagerMissing"
MANAGER_NOT_READY = "ManagerNotReady"
MODULE_CR_CREATED = "Created"
MODULE_CR_NOT_CREATED = "Refused"
MODULE_CR_REFUSED = "ModuleCRRefused"
MODULE_READY = "ModuleReady"
OBJECTS_TERMINATING = "ObjectsTerminating"
ORPHANED = "Orphaned"
UNMANAGED = "ModuleUnmanaged"


class ManagerView(NamedTuple):
    """An object that runs a module, and its readiness; None where it does not exist."""

    name: str
    readiness: Readiness | None


class CrView(NamedTuple):
    """The default Module CR; `live` is None where it does not exist.

    `refused` says why it could not be created or, where it was `created` before, why it can't be read.
    """

    wanted: DefaultCr
    live: Mapping[str, Any] | None
    refused: str = ""
    created: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a round of installing has shown.

    - `failures`: objects that could not be applied
    - `terminating`: objects that are being deleted, or are no longer in the module and not deleted yet
    - `held`: CRDs and Namespaces that are no longer in the module and stay, because they have objects
    - `found`: objects of the inventory that existed before
    - `refused_cr`: why the object that is given as the default Module CR is none
    - `has_new_kind`: the CRD of the default Module CR was created: the cluster is another one, or somebody deleted it
    - `warnings`: what the text of the module says twice
    """

    inventory: tuple[InventoryEntry, ...]
    failures: tuple[str, ...] = ()
    terminating: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    found: frozenset[Identity] = frozenset()
    managers: tuple[ManagerView, ...] = ()
    module_cr: CrView | None = None
    refused_cr: str = ""
    has_new_kind: bool = False
    warnings: tuple[str, ...] = ()


def was_created(manifest: Manifest, wanted: DefaultCr) -> bool:
    """Tell whether a default Module CR was created before: if it does not exist, its user has deleted it.

    The message says which one it was, except that of a former version.
    """
    created = find(manifest.status.conditions, MODULE_CR)
    if created is None or created.status != "True":
        return False
    return created.message == str(wanted) or is_former(created)


def begun(
    manifest: Manifest, inventory: Collection[InventoryEntry], found: Collection[Identity] = frozenset()
) -> ManifestStatus:
    """Return the status that records what is about to be applied, and what of it was found; its conditions stay."""
    state = manifest.status.state if manifest.status.state is not State.EMPTY else State.PROCESSING
    return msgspec.structs.replace(
        manifest.status,
        state=state,
        synced=references_to(inventory),
        found=references_to(among(inventory, found)),
    )


def refused(
    manifest: Manifest,
    inventory: Iterable[InventoryEntry],
    reason: str,
    message: str,
    now: datetime,
    *,
    awaited: bool = False,
) -> ManifestStatus:
    """Return the status of a Manifest whose objects can't be read or may not be applied. The inventory stays.

    `awaited`: its objects are being fetched.
    """
    known: ConditionStatus = "Unknown" if awaited else "False"
    state = State.PROCESSING if awaited else State.ERROR
    return _status(manifest, now, state, inventory, [(RESOURCES, known, reason, message), _not_ready(reason, message)])


def unreachable(
    manifest: Manifest, failure: SkrFailure, now: datetime, inventory: Iterable[InventoryEntry] | None = None
) -> ManifestStatus:
    """Return the status of a Manifest whose cluster can't be reached. The inventory stays."""
    why = (failure.reason, failure.message)
    state = State.DELETING if manifest.metadata.being_deleted else State.ERROR
    known = inventory_of(manifest) if inventory is None else inventory
    return _status(manifest, now, state, known, [(RESOURCES, "Unknown", *why), _not_ready(*why)])


def installed(manifest: Manifest, seen: Seen, checks: Sequence[CustomStateCheck], now: datetime) -> ManifestStatus:
    resources = _resources(seen)
    verdicts = [] if seen.failures else [*map(_manager, seen.managers), *_module_cr(seen.module_cr, checks)]
    conditions = [resources, *(_created(seen.module_cr) or _created_elsewhere(manifest, seen))]
    if seen.refused_cr:
        verdicts.append((State.ERROR, MODULE_CR_REFUSED, seen.refused_cr))
    if seen.failures:
        return _status(manifest, now, State.ERROR, seen.inventory, [*conditions, (READY, *resources[1:])])
    worst = min(verdicts, key=lambda verdict: PRECEDENCE.index(verdict[0]), default=(State.READY, "", ""))
    running = worst[0] is State.READY
    messages = "; ".join(message for state, _, message in verdicts if state is not State.READY)
    installation: NewCondition = (INSTALLATION, "True", MODULE_READY, "the module runs")
    if not running:
        installation = (INSTALLATION, "False", worst[1], messages)
    state, ready = worst[0], installation
    if running and seen.held:
        state, ready = State.WARNING, _not_ready(OBJECTS_IN_USE, resources[3])
    elif running and seen.terminating:
        state, ready = State.PROCESSING, _not_ready(OBJECTS_TERMINATING, resources[3])
    return _status(manifest, now, state, seen.inventory, [*conditions, installation, (READY, *ready[1:])])


def unmanaged(manifest: Manifest, inventory: Iterable[InventoryEntry], now: datetime) -> ManifestStatus:
    """Return the status of a Manifest whose objects were released to the users. The inventory stays."""
    message = "the users manage the objects of the module"
    return _status(manifest, now, State.UNMANAGED, inventory, [(READY, "Unknown", UNMANAGED, message)])


def deleting(
    manifest: Manifest,
    inventory: Iterable[InventoryEntry],
    waits_for: str,
    now: datetime,
    reason: str = DELETING,
    *,
    needs_users: bool = False,
    problem: Sequence[NewCondition] = (),
) -> ManifestStatus:
    """Return the status of a Manifest whose module is being removed; `needs_users`: its users have to act.

    `problem` says why the version that it would have meanwhile is not applied.
    """
    reason = MODULE_CRS_IN_USE if needs_users else reason
    conditions = [*problem, (INSTALLATION, "False", reason, waits_for), _not_ready(reason, waits_for)]
    return _status(manifest, now, State.DELETING, inventory, conditions)


def not_applied(failures: Sequence[str], error: SourceError | None) -> Sequence[NewCondition]:
    """Return the condition that says why objects are not applied."""
    if failures:
        return ((RESOURCES, "False", APPLY_FAILED, "; ".join(failures)),)
    return ((RESOURCES, "False", error.reason, str(error)),) if error is not None else ()


def _not_ready(reason: str, message: str) -> NewCondition:
    return READY, "False", reason, message


def _resources(seen: Seen) -> NewCondition:
    count = len(seen.inventory)
    if seen.failures:
        return (RESOURCES, "False", APPLY_FAILED, "; ".join(seen.failures))
    if seen.held:
        return (RESOURCES, "False", OBJECTS_IN_USE, f"no longer a part of the module: {'; '.join(seen.held)}")
    if seen.terminating:
        return (RESOURCES, "False", OBJECTS_TERMINATING, f"waiting for deletion of {', '.join(seen.terminating)}")
    there = "1 object is in the cluster" if count == 1 else f"{count} objects are there"
    message = f"{there}{found_message(seen.inventory, seen.found)}"
    return (RESOURCES, "True", APPLIED, "; ".join((message, *seen.warnings)))


def _manager(manager: ManagerView) -> tuple[State, str, str]:
    if manager.readiness is None:
        return State.ERROR, MANAGER_MISSING, f"{manager.name} does not exist"
    states = {"Current": State.READY, "Failed": State.ERROR}
    state = states.get(manager.readiness.state, State.PROCESSING)
    reason = MANAGER_FAILED if state is State.ERROR else MANAGER_NOT_READY
    return state, reason, f"{manager.name}: {manager.readiness.message}"


def _module_cr(view: CrView | None, checks: Sequence[CustomStateCheck]) -> list[tuple[State, str, str]]:
    if view is None:
        return []
    if view.refused:
        what = "read" if view.created else "created"
        return [(State.ERROR, MODULE_CR_REFUSED, f"{view.wanted} can't be {what}: {view.refused}")]
    if view.live is None:
        return []  # its user has deleted it
    state, message = state_of(view.live, checks)
    return [(state, f"ModuleCR{state}", f"{view.wanted} {message}")]


def _created(view: CrView | None) -> list[NewCondition]:
    if view is None or (view.refused and view.created):
        return []  # the condition stays
    if view.refused:
        return [(MODULE_CR, "False", MODULE_CR_NOT_CREATED, view.refused)]
    return [(MODULE_CR, "True", MODULE_CR_CREATED, str(view.wanted))]


def _created_elsewhere(manifest: Manifest, seen: Seen) -> list[NewCondition]:
    """Return that a default Module CR is to be created again: that of before went with its kind, not by its user."""
    known = find(manifest.status.conditions, MODULE_CR)
    if not seen.has_new_kind or known is None or known.status != "True":
        return []
    return [(MODULE_CR, "False", MODULE_CR_NOT_CREATED, "its kind is new in the cluster")]


def _status(
    manifest: Manifest,
    now: datetime,
    state: State,
    inventory: Iterable[InventoryEntry],
    conditions: Sequence[NewCondition],
) -> ManifestStatus:
    before, entries = manifest.status, tuple(inventory)
    same = set(inventory_of(manifest)) == set(entries)
    return with_conditions(
        before,
        manifest.metadata,
        now,
        conditions=conditions,
        state=state,
        synced=before.synced if same else references_to(entries),
        ready_version=ready_version(manifest, state, now),
    )


def ready_version(manifest: Manifest, state: State, now: datetime) -> ReadyVersion | None:
    """Return since when a module is Ready with its version, for the rollout that released one to its cluster.

    The condition Ready does not say that: it stays as it is where a module is Ready again before anybody has looked.
    """
    before, version = manifest.status, manifest.spec.version
    if state is not State.READY or before.release is None:
        return None
    known = before.ready_version
    return known if known is not None and known.version == version else ReadyVersion(version=version, since=now)
