"""The rules: which SyncResource a ModuleConfig needs, and what its status is to say. Pure functions.

A Module Manager owns two conditions of a ModuleConfig: `Rendered`, whether its function could turn the Module
CR into objects, and `Ready`, whether those objects are in force in the user cluster. `Synced` is Lifecycle
Manager's.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from kyma_module_manager.exceptions import SyncFailed
from kyma_module_manager.rendering import Rendering
from lifecycle_manager_api import (
    Condition,
    ConditionStatus,
    ModuleConfig,
    State,
    SyncResource,
    find,
    names,
    set_condition,
)

__all__ = ["READY", "RENDERED", "Verdict", "status_document", "sync_resource_document", "verdict"]

RENDERED = "Rendered"
READY = "Ready"
COPIED_ANNOTATIONS = (names.TRACEPARENT, names.OBSERVED_AT)
# A condition is for people; what a function says in many lines belongs into its log.
LONGEST_MESSAGE = 1024


Said = tuple[ConditionStatus, str, str]
"""What a condition says: its status, reason and message."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What there is to say about a ModuleConfig: its state and both conditions, without times."""

    state: State
    rendered: Said
    ready: Said


def sync_resource_document(
    config: ModuleConfig, existing: SyncResource | None, rendering: Rendering
) -> dict[str, Any] | None:
    """Return the SyncResource to apply, or None where the one that exists needs no change.

    Nothing is written for a ModuleConfig on its way out, nor over a SyncResource on its way out: its
    successor is written once it is gone.
    """
    if config.metadata.deletion_timestamp is not None:
        return None
    if existing is not None and (
        existing.metadata.deletion_timestamp is not None or _matches(config, existing, rendering)
    ):
        return None
    annotations = config.metadata.annotations
    return {
        "apiVersion": f"{SyncResource.GROUP}/{SyncResource.VERSION}",
        "kind": SyncResource.KIND,
        "metadata": {
            "name": config.metadata.name,
            "namespace": config.metadata.namespace,
            "labels": _labels(config),
            "annotations": {key: annotations[key] for key in COPIED_ANNOTATIONS if key in annotations},
            "ownerReferences": [_owner_reference(config)],
        },
        "spec": {"kyma": config.spec.kyma, "module": config.spec.module, "resource": rendering.text},
    }


def verdict(config: ModuleConfig, existing: SyncResource | None, outcome: Rendering | SyncFailed | None) -> Verdict:
    """Judge a ModuleConfig by what came of rendering it, if it was, and by its SyncResource."""
    match outcome:
        case None:
            leaving = "the objects are being removed from the user cluster"
            return Verdict(State.DELETING, _said_before(config), ("False", "Deleting", leaving))
        case SyncFailed():
            failure: Said = ("False", outcome.reason, _shortened(str(outcome)))
            return Verdict(State.ERROR, failure, failure)
        case Rendering():
            state, ready = _sync_verdict(existing)
            return Verdict(state, ("True", "Rendered", f"{len(outcome.objects)} objects"), ready)


def status_document(config: ModuleConfig, judged: Verdict, now: datetime) -> dict[str, Any] | None:
    """Return the status to apply to a ModuleConfig, or None where it says the same already."""
    status = config.status
    generation = config.metadata.generation
    conditions = status.conditions
    for kind, (held, reason, message) in ((RENDERED, judged.rendered), (READY, judged.ready)):
        new = Condition(type=kind, status=held, reason=reason, message=message, observed_generation=generation)
        conditions = set_condition(conditions, new, now)
    if (status.state, status.observed_generation, status.conditions) == (judged.state, generation, conditions):
        return None
    return {
        "apiVersion": f"{ModuleConfig.GROUP}/{ModuleConfig.VERSION}",
        "kind": ModuleConfig.KIND,
        "metadata": {"name": config.metadata.name, "namespace": config.metadata.namespace},
        "status": {
            "state": judged.state.value,
            "conditions": [msgspec.to_builtins(each) for each in conditions if each.type in {RENDERED, READY}],
            "lastOperation": {
                "operation": judged.ready[2] or judged.ready[1],
                "lastUpdateTime": _timestamp(now),
            },
            "observedGeneration": generation,
        },
    }


def _matches(config: ModuleConfig, existing: SyncResource, rendering: Rendering) -> bool:
    owners = existing.metadata.owner_references
    return (
        existing.spec.resource == rendering.text
        and existing.spec.kyma == config.spec.kyma
        and existing.spec.module == config.spec.module
        and _labels(config).items() <= dict(existing.metadata.labels).items()
        and any(owner.uid == config.metadata.uid for owner in owners)
    )


def _labels(config: ModuleConfig) -> dict[str, str]:
    return {names.KYMA_NAME: config.spec.kyma, names.MODULE_NAME: config.spec.module}


def _owner_reference(config: ModuleConfig) -> dict[str, Any]:
    return {
        "apiVersion": f"{ModuleConfig.GROUP}/{ModuleConfig.VERSION}",
        "kind": ModuleConfig.KIND,
        "name": config.metadata.name,
        "uid": config.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def _sync_verdict(existing: SyncResource | None) -> tuple[State, Said]:
    if existing is None or existing.metadata.deletion_timestamp is not None:
        return State.PROCESSING, ("False", "NotWritten", "the SyncResource is still to be written")
    if existing.status.observed_generation != existing.metadata.generation:
        generation = existing.metadata.generation
        return State.PROCESSING, ("False", "NotApplied", f"generation {generation} is still to be applied")
    state = existing.status.state
    reported = find(existing.status.conditions, READY)
    if state == State.READY:
        return state, ("True", "Applied", _shortened(reported.message if reported else ""))
    reason, message = (reported.reason, reported.message) if reported else (state.value or "Unknown", "")
    return state or State.PROCESSING, ("False", reason, _shortened(message))


def _said_before(config: ModuleConfig) -> Said:
    before = find(config.status.conditions, RENDERED)
    if before is None:
        return "Unknown", "Deleting", "deleted before it was rendered"
    return before.status, before.reason, before.message


def _timestamp(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def _shortened(message: str) -> str:
    return message if len(message) <= LONGEST_MESSAGE else f"{message[: LONGEST_MESSAGE - 1]}…"
