"""What a Manifest says of itself after a round. Pure functions.

`Resources` tells whether the objects are in the cluster, `ModuleCR` which default Module CR was made, `Installation`
whether the module runs, and `Ready` all of it in one word.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec

from kube_runtime import InventoryEntry, Readiness
from lifecycle_manager.module_installation.module_cr import DefaultCr
from lifecycle_manager.module_installation.plan import MODULE_CR, inventory_of, references_to
from lifecycle_manager.module_installation.state_checks import PRECEDENCE, state_of
from lifecycle_manager_api import (
    CustomStateCheck,
    Manifest,
    ManifestStatus,
    State,
    find,
)
from lifecycle_manager_api.conditions import Said, last_operation, set_conditions

RESOURCES = "Resources"
INSTALLATION = "Installation"
READY = "Ready"


class ManagerView(NamedTuple):
    """What runs a module, and how it is; None where it is not there."""

    name: str
    readiness: Readiness | None


class CrView(NamedTuple):
    """The default Module CR as it is; `live` is None where there is none.

    `refused` says why none could be made or, where it was `made` before, why it can't be read.
    """

    wanted: DefaultCr
    live: Mapping[str, Any] | None
    refused: str = ""
    made: bool = False


@dataclass(frozen=True, slots=True)
class Seen:
    """What a round of installing has shown.

    - `failures`: objects that could not be applied
    - `going`: objects that left the module and are not gone yet
    - `held`: definitions that left the module and stay, because objects of theirs are there
    """

    inventory: tuple[InventoryEntry, ...]
    failures: tuple[str, ...] = ()
    going: tuple[str, ...] = ()
    held: tuple[str, ...] = ()
    managers: tuple[ManagerView, ...] = ()
    module_cr: CrView | None = None


@dataclass(frozen=True, slots=True)
class Leaving:
    """What a round of removing has shown: what is still there, what it waits for, and whether users have to act."""

    inventory: tuple[InventoryEntry, ...]
    waits_for: str
    needs_users: bool = False


def was_made(manifest: Manifest, wanted: DefaultCr) -> bool:
    """Tell whether a default Module CR was made already: if it is not there, its user has deleted it."""
    made = find(manifest.status.conditions, MODULE_CR)
    return made is not None and made.status == "True" and made.message == str(wanted)


def begun(manifest: Manifest, inventory: Iterable[InventoryEntry]) -> ManifestStatus:
    """Return the status that says what is about to be applied; of how it goes it says nothing yet."""
    state = manifest.status.state if manifest.status.state is not State.EMPTY else State.PROCESSING
    return msgspec.structs.replace(manifest.status, state=state, synced=references_to(inventory))


def refused(
    manifest: Manifest, inventory: Iterable[InventoryEntry], reason: str, message: str, now: datetime
) -> ManifestStatus:
    """Return the status of a Manifest whose objects can't be had or may not be applied. What is there stays."""
    said: list[Said] = [(RESOURCES, "False", reason, message), (READY, "False", reason, message)]
    return _status(manifest, now, State.ERROR, inventory, said)


def awaited(
    manifest: Manifest, inventory: Iterable[InventoryEntry], reason: str, message: str, now: datetime
) -> ManifestStatus:
    """Return the status of a Manifest whose objects are on their way here."""
    said: list[Said] = [(RESOURCES, "Unknown", reason, message), (READY, "False", reason, message)]
    return _status(manifest, now, State.PROCESSING, inventory, said)


def unreachable(
    manifest: Manifest, inventory: Iterable[InventoryEntry], reason: str, message: str, now: datetime
) -> ManifestStatus:
    """Return the status of a Manifest whose cluster can't be reached. Nothing is known to have changed."""
    said: list[Said] = [(RESOURCES, "Unknown", reason, message), (READY, "False", reason, message)]
    state = State.DELETING if manifest.metadata.being_deleted else State.ERROR
    return _status(manifest, now, state, inventory, said)


def installed(manifest: Manifest, seen: Seen, checks: Sequence[CustomStateCheck], now: datetime) -> ManifestStatus:
    """Return the status after a round of installing."""
    resources = _resources(seen)
    verdicts = [] if seen.failures else [*map(_manager, seen.managers), *_module_cr(seen.module_cr, checks)]
    said = [resources, *_made(seen.module_cr)]
    if seen.failures:
        return _status(manifest, now, State.ERROR, seen.inventory, [*said, (READY, *resources[1:])])
    worst = min(verdicts, key=lambda verdict: PRECEDENCE.index(verdict[0]), default=(State.READY, "", ""))
    running = worst[0] is State.READY
    messages = "; ".join(message for state, _, message in verdicts if state is not State.READY)
    installation: Said = (INSTALLATION, "True", "ModuleReady", "the module runs")
    if not running:
        installation = (INSTALLATION, "False", worst[1], messages)
    state, ready = worst[0], installation
    if running and seen.held:
        state, ready = State.WARNING, (READY, "False", "ObjectsInUse", resources[3])
    elif running and seen.going:
        state, ready = State.PROCESSING, (READY, "False", "ObjectsGoing", resources[3])
    return _status(manifest, now, state, seen.inventory, [*said, installation, (READY, *ready[1:])])


def leaving(manifest: Manifest, left: Leaving, now: datetime) -> ManifestStatus:
    """Return the status of a Manifest whose module is on its way out."""
    state, reason = (State.WARNING, "ModuleCRsInUse") if left.needs_users else (State.DELETING, "Deleting")
    said: list[Said] = [
        (INSTALLATION, "False", reason, left.waits_for),
        (READY, "False", reason, left.waits_for),
    ]
    return _status(manifest, now, state, left.inventory, said)


def _resources(seen: Seen) -> Said:
    count = len(seen.inventory)
    if seen.failures:
        return (RESOURCES, "False", "ApplyFailed", "; ".join(seen.failures))
    if seen.held:
        return (RESOURCES, "False", "ObjectsInUse", f"no longer a part of the module: {'; '.join(seen.held)}")
    if seen.going:
        return (RESOURCES, "False", "ObjectsGoing", f"waits for {', '.join(seen.going)} to go")
    return (RESOURCES, "True", "Applied", "1 object is in the cluster" if count == 1 else f"{count} objects are there")


def _manager(manager: ManagerView) -> tuple[State, str, str]:
    if manager.readiness is None:
        return State.ERROR, "ManagerMissing", f"{manager.name} is not there"
    states = {"Current": State.READY, "Failed": State.ERROR}
    state = states.get(manager.readiness.state, State.PROCESSING)
    reason = "ManagerFailed" if state is State.ERROR else "ManagerNotReady"
    return state, reason, f"{manager.name}: {manager.readiness.message}"


def _module_cr(view: CrView | None, checks: Sequence[CustomStateCheck]) -> list[tuple[State, str, str]]:
    if view is None:
        return []
    if view.refused:
        what = "read" if view.made else "created"
        return [(State.ERROR, "ModuleCRRefused", f"{view.wanted} can't be {what}: {view.refused}")]
    if view.live is None:
        return []  # its user has deleted it
    state, message = state_of(view.live, checks)
    return [(state, f"ModuleCR{state}", f"{view.wanted} {message}")]


def _made(view: CrView | None) -> list[Said]:
    if view is None or (view.refused and view.made):
        return []  # what was said of it before still holds
    if view.refused:
        return [(MODULE_CR, "False", "Refused", view.refused)]
    return [(MODULE_CR, "True", "Created", str(view.wanted))]


def _status(
    manifest: Manifest,
    now: datetime,
    state: State,
    inventory: Iterable[InventoryEntry],
    said: Iterable[Said],
) -> ManifestStatus:
    before, generation, all_said = manifest.status, manifest.metadata.generation, tuple(said)
    entries = tuple(inventory)
    return msgspec.structs.replace(
        before,
        state=state,
        synced=before.synced if set(inventory_of(manifest)) == set(entries) else references_to(entries),
        conditions=set_conditions(before.conditions, all_said, generation, now),
        last_operation=last_operation(before.last_operation, all_said[-1][3], now),
        observed_generation=generation,
    )
