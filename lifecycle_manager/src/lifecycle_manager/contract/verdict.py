"""What the user of a Module CR has to know about it, in one value. Pure functions.

The cause that counts comes from different places: this process could not read the Module CR, the Module Manager refused
it, or the cluster refused an object that was made from it. Messages that name objects of KCP, which the user cannot
see, are replaced.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kube_runtime import UNDECODABLE, ResponseTooLarge
from kube_runtime.client.json_limits import JsonLimits, check_json
from lifecycle_manager_api import (
    Condition,
    ModuleConfig,
    OwnerReference,
    State,
    SyncedObject,
    SyncResource,
    SyncResourceStatus,
    find,
    names,
    raw_object,
)
from lifecycle_manager_api.conditions import shortened

READY, SYNCED, RENDERED = names.READY_CONDITION, names.SYNCED_CONDITION, names.RENDERED_CONDITION

MODULE_CR_TOO_LARGE = "ModuleCRTooLarge"
MODULE_CR_UNREADABLE = "ModuleCRUnreadable"
QUOTA_EXCEEDED = "QuotaExceeded"
_OF_THE_MODULE_CR = frozenset({MODULE_CR_TOO_LARGE, MODULE_CR_UNREADABLE, QUOTA_EXCEEDED})
"""Reasons of `Synced` whose messages are about the Module CR; all others are about the access to its cluster."""

APPLY_FAILED = "ApplyFailed"
CONFLICT = "Conflict"
FORBIDDEN = "Forbidden"
INVALID_RESOURCE = "InvalidResource"
OBJECTS_IN_USE = "ObjectsInUse"
"""An object that is no longer wanted contains objects of others."""
OBJECTS_NOT_READY = "ObjectsNotReady"
POLICY_VIOLATION = "PolicyViolation"
"""An object violates the ModulePolicy of its module."""
TOO_MANY_OBJECTS = "TooManyObjects"
TEXT_TOO_LARGE = "TextTooLarge"
_OF_THE_OBJECTS = frozenset(
    {APPLY_FAILED, FORBIDDEN, INVALID_RESOURCE, OBJECTS_NOT_READY, POLICY_VIOLATION, TOO_MANY_OBJECTS}
)
"""Reasons of a SyncResource whose messages are about objects in the user's cluster."""

APPLIED = "Applied"
APPLYING = "Applying"
DELETING = "Deleting"
NOT_ACCESSIBLE = "ClusterNotAccessible"
WAITING_FOR_MANAGER = "WaitingForModuleManager"

MANAGED_FIELDS = frozenset({"state", "observedGeneration", "conditions"})
"""Fields of a Module CR's status that the Lifecycle Manager writes."""
MAX_STATUS_BYTES, MAX_STATUS_DEPTH = 16 * 1024, 16
"""Of the fields that a Module Manager adds. Deeper ones would make the Module CR unreadable."""
MAX_MESSAGE_LENGTH = 1024
MAX_NAMED = 3
MAX_DIGITS = 20


@dataclass(frozen=True, slots=True)
class Verdict:
    """The state of a Module CR as its user should see it.

    - `reason`, `message`: of what counts, in the words of who found it; without names of objects in KCP
    - `generation`: the generation of the Module CR that this is about; where the state is Ready, it is in force. None
      where it is not known
    - `status`: further fields, from the Module Manager (`module_fields_of`), for whoever writes them
    - `is_settled`: False while a change is on its way, which usually takes less than a second
    """

    state: State
    reason: str
    message: str
    generation: int | None
    status: Mapping[str, Any] = field(default_factory=dict)
    is_settled: bool = True


def config_of(resource: SyncResource) -> str:
    """Return the name of the ModuleConfig that a SyncResource was made from: its owner, or else the same name."""
    return next((each.name for each in owning_configs(resource)), resource.metadata.name)


def owning_configs(resource: SyncResource) -> tuple[OwnerReference, ...]:
    """Return the references to the ModuleConfigs with which a SyncResource is deleted."""
    return tuple(each for each in resource.metadata.owner_references if each.kind == ModuleConfig.KIND)


def belongs_to(config: ModuleConfig, resource: SyncResource) -> bool:
    """Tell whether a SyncResource was made from a ModuleConfig. One of another namespace, module or Kyma never was."""
    if (resource.spec.kyma, resource.spec.module) != (config.spec.kyma, config.spec.module):
        return False
    if resource.metadata.namespace != config.metadata.namespace:
        return False
    owners = [each.uid for each in owning_configs(resource)]
    return config.metadata.uid in owners if owners else resource.metadata.name == config.metadata.name


def verdict_of(config: ModuleConfig, sync_resources: Iterable[SyncResource]) -> Verdict:
    """Return the verdict on the Module CR of a ModuleConfig; of the SyncResources only its own count."""
    own = [each for each in sync_resources if belongs_to(config, each)]
    own.sort(key=lambda each: each.metadata.name)
    state, reason, message = _cause(config, own)
    reference = config.spec.resource_ref
    return Verdict(
        state,
        reason,
        shortened(message, MAX_MESSAGE_LENGTH),
        reference.generation if reference is not None else None,
        is_settled=state is not State.PROCESSING,
    )


Cause = tuple[State, str, str]


def _cause(config: ModuleConfig, resources: Sequence[SyncResource]) -> Cause:
    if config.metadata.being_deleted:
        return State.DELETING, DELETING, "its objects are being deleted"
    if unusable := _unread(config) or _refused(config):
        return unusable
    made = bool(resources) and all(_made_from(each) >= config.metadata.generation for each in resources)
    reports = config.status.state is not State.EMPTY and _is_current(config, config.status.observed_generation)
    if not made and not reports:
        return State.PROCESSING, WAITING_FOR_MANAGER, "waits for the module manager"
    if not made and config.status.state is State.PROCESSING and any(map(_made_from, resources)):
        # Its text is the same as before, or the newer one is not seen yet. What is seen may be of an earlier text.
        return State.PROCESSING, APPLYING, "its objects are being applied"
    found = [_cause_of(each) for each in resources]
    # A manager with the condition Rendered only repeats what it saw in its SyncResources, later than it is seen here.
    if reports and not (made and find(config.status.conditions, RENDERED) is not None):
        found.append(_reported(config))
    for state in (State.ERROR, State.WARNING, State.PROCESSING):
        if worst := next((each for each in found if each is not None and each[0] is state), None):
            return worst
    count = sum(len(each.status.synced) for each in resources)
    objects = "1 object is" if count == 1 else f"{count} objects are"
    return State.READY, APPLIED, f"{objects} applied and ready"


def _unread(config: ModuleConfig) -> Cause | None:
    """Return why the Module CR could not be read."""
    synced = find(config.status.conditions, SYNCED)
    if synced is None or synced.status != "False":
        return None
    if synced.reason not in _OF_THE_MODULE_CR:
        return State.WARNING, NOT_ACCESSIBLE, "it can't be read from the cluster at the moment"
    return State.ERROR, synced.reason, synced.message


def _refused(config: ModuleConfig) -> Cause | None:
    """Return why the Module Manager refused the current text."""
    rendered = find(config.status.conditions, RENDERED)
    if rendered is None or rendered.status != "False":
        return None
    observed = rendered.observed_generation
    if not _is_current(config, observed if observed is not None else config.status.observed_generation):
        return None
    return State.ERROR, rendered.reason, rendered.message


def _reported(config: ModuleConfig) -> Cause | None:
    """Return what the Module Manager reports, where that is not ready."""
    state = config.status.state
    if state is State.READY:
        return None
    ready = find(config.status.conditions, READY)
    reason, message = (ready.reason, ready.message) if ready is not None and ready.status != "True" else (state, "")
    shown = state if state in {State.ERROR, State.WARNING} else State.PROCESSING
    return shown, reason, message or f"the module manager reports {state}"


def in_use_message(resource: SyncResource) -> str:
    """Say why objects of a SyncResource that is deleted stay, as users have objects that would go along; else empty."""
    ready = find(resource.status.conditions, READY) if resource.metadata.being_deleted else None
    return ready.message if ready is not None and ready.reason == OBJECTS_IN_USE else ""


def _cause_of(resource: SyncResource) -> Cause | None:
    """Return why a SyncResource is not in force."""
    status = resource.status
    if resource.metadata.being_deleted:
        return State.PROCESSING, APPLYING, "its former objects are being deleted"
    if status.observed_generation != resource.metadata.generation:
        return State.PROCESSING, APPLYING, "its objects are being applied"
    if status.state is State.READY:
        return None
    ready = find(status.conditions, READY)
    reason, message = (ready.reason, ready.message) if ready is not None else (status.state or APPLYING, "")
    if reason == OBJECTS_IN_USE:
        return State.WARNING, reason, message
    if status.state is State.ERROR:
        return _failure(status, reason, message)
    return State.PROCESSING, reason, _waiting(status.synced, ready) or "its objects are being applied"


def _failure(status: SyncResourceStatus, reason: str, message: str) -> Cause:
    if reason == CONFLICT:
        return State.ERROR, reason, "an object belongs to another Module CR of the cluster"
    if reason not in _OF_THE_OBJECTS:
        return State.WARNING, NOT_ACCESSIBLE, "its objects can't be applied to the cluster at the moment"
    named = _not_ready(status.synced, State.ERROR) if reason == OBJECTS_NOT_READY else ""
    return State.ERROR, reason, named or message


def _waiting(synced: Iterable[SyncedObject], ready: Condition | None) -> str:
    named = _not_ready(synced, State.PROCESSING)
    since = ready.last_transition_time if ready is not None else None
    return f"waits for {named}" + (f", since {since:%H:%M:%S} UTC" if since else "") if named else ""


def _not_ready(synced: Iterable[SyncedObject], state: State) -> str:
    """Name the first objects in a state, with their messages."""
    found = [each for each in synced if each.state is state]
    named = [f"{_name(each)}: {each.message}" if each.message else _name(each) for each in found[:MAX_NAMED]]
    return "; ".join(named) + (f" and {len(found) - MAX_NAMED} more" if len(found) > MAX_NAMED else "")


def _name(each: SyncedObject) -> str:
    return f"{each.kind} {each.namespace}/{each.name}" if each.namespace else f"{each.kind} {each.name}"


def _made_from(resource: SyncResource) -> int:
    """Return the generation of the ModuleConfig that a SyncResource was made from; 0 where it is not named."""
    made = resource.metadata.annotations.get(names.MODULE_CONFIG_GENERATION, "")
    return int(made) if made.isascii() and made.isdigit() and len(made) < MAX_DIGITS else 0


def _is_current(config: ModuleConfig, observed: int | None) -> bool:
    return observed == config.metadata.generation


def module_fields_of(config: ModuleConfig) -> Mapping[str, Any]:
    """Return the fields that the Module Manager adds to the status; none of them where they are too large."""
    given = config.status.module_status
    try:
        check_json(bytes(given), JsonLimits(MAX_STATUS_BYTES, MAX_STATUS_BYTES, MAX_STATUS_DEPTH))
        fields = raw_object(given) or {}
    except (ResponseTooLarge, *UNDECODABLE):
        return {}
    return {key: value for key, value in fields.items() if key not in MANAGED_FIELDS}
