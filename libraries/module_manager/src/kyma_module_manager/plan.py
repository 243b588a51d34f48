"""The rules: which SyncResource a ModuleConfig needs, and which status it gets. Pure functions.

A Module Manager writes two conditions of a ModuleConfig: `Rendered`, whether its function could turn the Module CR into
objects, and `Ready`, whether those objects are applied and ready in the SKR. Lifecycle Manager writes `Synced`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec

from kube_crds.conditions import REASON
from kyma_module_manager.exceptions import PermanentError, RenderingFailed, SyncFailed
from kyma_module_manager.rendering import Rendering
from lifecycle_manager_api import ModuleConfig, State, SyncResource, find, names, raw_object
from lifecycle_manager_api.conditions import NewCondition, counted, set_conditions, shortened

RENDERED, READY = names.RENDERED_CONDITION, names.READY_CONDITION
COPIED_ANNOTATIONS = (names.TRACEPARENT, names.OBSERVED_AT)
# A condition is for people; long output of a function belongs in its log.
MAX_MESSAGE_LENGTH = 1024


@dataclass(frozen=True, slots=True)
class DesiredStatus:
    """The state and the conditions of a ModuleConfig, without times, and the fields for the status of the Module CR."""

    state: State
    rendered: NewCondition
    ready: NewCondition
    module_status: Mapping[str, Any] = field(default_factory=dict)


def sync_resource_document(
    config: ModuleConfig, existing: SyncResource | None, rendering: Rendering, *, trace: str = ""
) -> dict[str, Any] | None:
    """Return the SyncResource to apply, or None where the one that exists needs no change.

    `trace` continues that of the ModuleConfig, whose own is copied without it.
    None if the ModuleConfig or the SyncResource is being deleted: a new SyncResource is written after the deletion of
    the old one.
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
            "annotations": {key: annotations[key] for key in COPIED_ANNOTATIONS if key in annotations}
            | ({names.TRACEPARENT: trace} if trace else {})
            | {names.MODULE_CONFIG_GENERATION: str(config.metadata.generation)},
            "finalizers": [names.SYNC_RESOURCE_FINALIZER],  # Lifecycle Manager's, set here, which saves it a write
            "ownerReferences": [_owner_reference(config)],
        },
        "spec": {"kyma": config.spec.kyma, "module": config.spec.module, "resource": rendering.text},
    }


def desired_status(
    config: ModuleConfig, existing: SyncResource | None, outcome: Rendering | SyncFailed | None
) -> DesiredStatus:
    """Return the status for the outcome of rendering and the SyncResource.

    The outcome is None for a ModuleConfig that is being deleted. A failed run changes no fields of the Module CR's
    status, as it changes no objects.
    """
    before = _module_status(config)
    match outcome:
        case None:
            message = "the objects are being deleted from the SKR"
            return DesiredStatus(State.DELETING, _last_rendered(config), (READY, "False", "Deleting", message), before)
        case SyncFailed():
            rendered: NewCondition = (RENDERED, "False", *_reason_and_message(outcome))
            return DesiredStatus(State.ERROR, rendered, (READY, *rendered[1:]), before)
        case Rendering():
            # One of an earlier text says nothing: it is in a cache that has not seen the newest yet.
            is_current = existing is not None and _matches(config, existing, outcome)
            state, ready = _sync_status(existing if is_current else None)
            return DesiredStatus(
                state, (RENDERED, "True", "Rendered", counted(len(outcome.objects), "object")), ready, outcome.status
            )


def status_document(config: ModuleConfig, desired: DesiredStatus, now: datetime) -> dict[str, Any] | None:
    """Return the status to apply to a ModuleConfig, or None if it is unchanged."""
    status = config.status
    generation = config.metadata.generation
    conditions = set_conditions(status.conditions, (desired.rendered, desired.ready), generation, now)
    now_there = (status.state, status.observed_generation, status.conditions, _module_status(config))
    if now_there == (desired.state, generation, conditions, desired.module_status):
        return None
    further = {"moduleStatus": dict(desired.module_status)} if desired.module_status else {}
    return {
        "apiVersion": f"{ModuleConfig.GROUP}/{ModuleConfig.VERSION}",
        "kind": ModuleConfig.KIND,
        "metadata": {"name": config.metadata.name, "namespace": config.metadata.namespace},
        "status": {
            "state": desired.state.value,
            "conditions": [msgspec.to_builtins(each) for each in conditions if each.type in {RENDERED, READY}],
            "lastOperation": {
                "operation": desired.ready[3] or desired.ready[2],
                "lastUpdateTime": now.strftime("%Y-%m-%dT%H:%M:%SZ"),
            },
            "observedGeneration": generation,
            **further,
        },
    }


def _reason_and_message(failure: SyncFailed) -> tuple[str, str]:
    """Return why a run failed. The API server would refuse a reason that is not one word, and the message with it."""
    reason, message = failure.reason, str(failure)
    if re.fullmatch(REASON, str(reason)) is None:
        message = f"{reason}: {message}" if reason else message
        reason = PermanentError.reason if isinstance(failure, PermanentError) else RenderingFailed.reason
    return reason, shortened(message, MAX_MESSAGE_LENGTH)


def _module_status(config: ModuleConfig) -> dict[str, Any]:
    return raw_object(config.status.module_status) or {}


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


def _sync_status(existing: SyncResource | None) -> tuple[State, NewCondition]:
    if existing is None or existing.metadata.deletion_timestamp is not None:
        return State.PROCESSING, (READY, "False", "NotWritten", "the SyncResource is not written yet")
    if existing.status.observed_generation != existing.metadata.generation:
        generation = existing.metadata.generation
        return State.PROCESSING, (READY, "False", "NotApplied", f"generation {generation} is not applied yet")
    state = existing.status.state
    reported = find(existing.status.conditions, READY)
    if state == State.READY:
        return state, (READY, "True", "Applied", shortened(reported.message if reported else "", MAX_MESSAGE_LENGTH))
    reason, message = (reported.reason, reported.message) if reported else (state.value or "Unknown", "")
    return state or State.PROCESSING, (READY, "False", reason, shortened(message, MAX_MESSAGE_LENGTH))


def _last_rendered(config: ModuleConfig) -> NewCondition:
    before = find(config.status.conditions, RENDERED)
    if before is None:
        return RENDERED, "Unknown", "Deleting", "deleted before it was rendered"
    return RENDERED, before.status, before.reason, before.message
