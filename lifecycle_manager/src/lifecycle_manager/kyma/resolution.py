"""Which version of a module a Kyma gets: a pure function of what users ask, what is offered, and what is there.

A channel named on the module goes before the Kyma's own. It stands for a version, and the version for a template. Then
the rules of change apply, each named by what it finds: a version never goes back, a new one reaches the fleet spread
over time, and one that interrupts the module waits for a maintenance window. Where a rule holds a change back, the
version that is there stays in force.
"""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from lifecycle_manager.module_catalog import Exclusion, Offer, excluded
from lifecycle_manager.module_catalog.offer import version_of
from lifecycle_manager.rollout.maintenance import MaintenancePolicy
from lifecycle_manager_api import (
    InvalidVersion,
    KymaModule,
    KymaSpec,
    ModuleReleaseMeta,
    ModuleTemplate,
    State,
    Version,
    template_name,
)

_MANDATORY = Exclusion("ModuleMandatory", "is mandatory: it is installed everywhere and can't be chosen")


@dataclass(frozen=True, slots=True)
class Installed:
    """What there is of a module already: its version, and the channel that it came from."""

    version: str
    channel: str


@dataclass(frozen=True, slots=True)
class Timing:
    """When changes may happen.

    - `released_at`: since when a module's channels are as they are, where that is known
    - `rollout`: over how long a new version is spread over the fleet
    - `policy`: the maintenance windows; without, nothing waits for one
    - `policy_unreadable`: what is wrong with them; then nothing that interrupts a module is changed
    """

    now: datetime
    released_at: Mapping[str, datetime] = field(default_factory=dict)
    rollout: timedelta = timedelta(0)
    policy: MaintenancePolicy | None = None
    policy_unreadable: str = ""
    least_window: timedelta = timedelta(minutes=20)


@dataclass(frozen=True, slots=True)
class Subject:
    """Whose modules are resolved: the Kyma's name and uid, by which it is told from others, and its labels."""

    name: str
    uid: str
    labels: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one entry of `spec.modules` stands for: the version in force and its template, or why there is none.

    `state` is what the module's state is at best, where there is a reason why it has not what was asked for.
    `again` is when that may be otherwise.
    """

    module: KymaModule
    channel: str
    version: str = ""
    template: ModuleTemplate | None = None
    state: State = State.READY
    reason: str = ""
    message: str = ""
    maintenance: bool = False
    again: datetime | None = None


@dataclass(frozen=True, slots=True)
class _Candidate:
    """The version that a module would have if nothing was there yet."""

    module: KymaModule
    channel: str
    version: str
    template: ModuleTemplate


def resolve(
    spec: KymaSpec, subject: Subject, offer: Offer, installed: Mapping[str, Installed], timing: Timing
) -> tuple[Resolution, ...]:
    """Resolve every module that a Kyma asks for, in its order. Of two entries for one module the first counts."""
    asked: dict[str, KymaModule] = {}
    for module in spec.modules:
        asked.setdefault(module.name, module)
    return tuple(_resolve(each, spec, subject, offer, installed.get(name), timing) for name, each in asked.items())


def _resolve(
    module: KymaModule,
    spec: KymaSpec,
    subject: Subject,
    offer: Offer,
    installed: Installed | None,
    timing: Timing,
) -> Resolution:
    channel = module.channel or spec.channel
    if not module.managed:
        return _unmanaged(module, channel, offer, installed)
    found = _candidate(module, channel, subject.labels, offer)
    if isinstance(found, Exclusion):
        return _refused(module, channel, offer, installed, found)
    if installed is None or not installed.version or installed.version == found.version:
        return _in_force(found)
    held = (
        _downgrade(found, installed)
        or _not_its_turn(found, installed, subject, timing)
        or _outside_of_maintenance(found, spec, subject, timing)
    )
    return _in_force(found) if held is None else _stay(held, offer, installed)


def _candidate(module: KymaModule, channel: str, labels: Mapping[str, str], offer: Offer) -> _Candidate | Exclusion:
    release = offer.releases.get(module.name)
    template = offer.by_channel.get((module.name, channel)) if release is None else _released(release, channel, offer)
    if template is None:
        return Exclusion("ModuleNotFound", f"is not in the catalog for channel {channel!r}; check its name")
    if isinstance(template, Exclusion):
        return excluded(labels, None, release) or template
    if not offer.can_be_chosen(template):
        return _MANDATORY
    return excluded(labels, template, release) or _Candidate(module, channel, version_of(template), template)


def _released(release: ModuleReleaseMeta, channel: str, offer: Offer) -> ModuleTemplate | Exclusion:
    """Return the template that a channel stands for."""
    if release.spec.mandatory is not None:
        return _MANDATORY
    version = next((entry.version for entry in release.spec.channels if entry.channel == channel), "")
    if not version:
        offered = ", ".join(sorted(entry.channel for entry in release.spec.channels)) or "none"
        return Exclusion("ChannelNotFound", f"has no channel {channel!r}; its channels are: {offered}")
    name = template_name(release.spec.module_name, version)
    missing = f"is released as {version} in channel {channel!r}, but ModuleTemplate {name} does not exist"
    return offer.templates.get(name) or Exclusion("ModuleTemplateNotFound", missing)


def _in_force(candidate: _Candidate) -> Resolution:
    return Resolution(candidate.module, candidate.channel, candidate.version, candidate.template)


def _stay(held: Resolution, offer: Offer, installed: Installed) -> Resolution:
    """Return the resolution with the version that is there, and its template if that is still offered."""
    template = offer.template(held.module.name, installed.version)
    return replace(held, version=installed.version, template=template)


def _unmanaged(module: KymaModule, channel: str, offer: Offer, installed: Installed | None) -> Resolution:
    resolution = Resolution(
        module, channel, state=State.UNMANAGED, reason="ModuleUnmanaged", message="left alone, since it is not managed"
    )
    return resolution if installed is None else _stay(resolution, offer, installed)


def _refused(module: KymaModule, channel: str, offer: Offer, installed: Installed | None, why: Exclusion) -> Resolution:
    refused = Resolution(
        module, channel, state=State.ERROR, reason=why.reason, message=f"module {module.name!r} {why.message}"
    )
    return refused if installed is None else _stay(refused, offer, installed)


def _downgrade(found: _Candidate, installed: Installed) -> Resolution | None:
    """Hold back a version that is lower than the one that is there.

    Within a channel the precedence of Semantic Versioning counts. To the users who switch channels, pre-releases of
    one version count as equal.
    """
    try:
        new, old = Version.parse(found.version), Version.parse(installed.version)
    except InvalidVersion:
        return None
    switched = bool(installed.channel) and installed.channel != found.channel
    lower = (new.major, new.minor, new.patch) < (old.major, old.minor, old.patch) if switched else new < old
    if not lower:
        return None
    return Resolution(
        found.module,
        found.channel,
        state=State.WARNING,
        reason="DowngradeNotAllowed",
        message=f"module {found.module.name!r} stays at version {installed.version}: channel {found.channel!r} has "
        f"{found.version}, and no module goes back to a lower version; remove the module and add it again for that",
    )


def _not_its_turn(found: _Candidate, installed: Installed, subject: Subject, timing: Timing) -> Resolution | None:
    """Hold back a new version of a channel until it is this Kyma's turn.

    The API server's clock says when it was released, and may be a little ahead of ours. A time that is further ahead
    than a rollout takes is none.
    """
    released_at = timing.released_at.get(found.module.name)
    if released_at is None or installed.channel != found.channel:
        return None  # users who switch channels need not wait
    turn = released_at + timing.rollout * _share(subject, found)
    if turn <= timing.now or released_at > timing.now + timing.rollout:
        return None
    return Resolution(found.module, found.channel, reason="RolloutPending", again=turn)


def _outside_of_maintenance(found: _Candidate, spec: KymaSpec, subject: Subject, timing: Timing) -> Resolution | None:
    """Hold back a version that interrupts the module until a maintenance window is open."""
    if not found.template.spec.requires_downtime or spec.skip_maintenance_windows:
        return None
    if timing.policy is None and not timing.policy_unreadable:
        return None
    waiting = Resolution(found.module, found.channel, reason="WaitsForMaintenance", maintenance=True)
    what = f"module {found.module.name!r} is upgraded to {found.version} in a maintenance window"
    window = timing.policy.next_window(subject.labels, timing.now, timing.least_window) if timing.policy else None
    if window is None:
        why = timing.policy_unreadable or "none is planned for this cluster"
        return replace(waiting, state=State.WARNING, message=f"{what}, which is not known: {why}")
    if window.holds(timing.now):
        return None
    return replace(waiting, message=f"{what}, the next of which begins {window.begin.isoformat()}", again=window.begin)


def _share(subject: Subject, found: _Candidate) -> float:
    """Return at which share of a rollout a Kyma has its turn: the same always, and evenly spread over the fleet."""
    text = f"{subject.uid or subject.name}/{found.module.name}/{found.version}"
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=6).digest()) / 2**48
