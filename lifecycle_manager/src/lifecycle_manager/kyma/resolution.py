"""Which version of a module a Kyma gets: a pure function of what users request, what is offered, and what is installed.

A channel on the module precedes the Kyma's own. It stands for a version, and the version for a template. Then the rules
of change apply, each named by what it finds: a version is never downgraded, a new one is spread over the fleet in time,
and one that requires downtime waits for a maintenance window. Where a rule defers a change, the installed version stays
in force.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from lifecycle_manager.contract.conditions import DELETION_HELD
from lifecycle_manager.contract.durations import parse_duration
from lifecycle_manager.contract.offsets import offset_of
from lifecycle_manager.kyma.causes import MAX_NAME_LENGTH
from lifecycle_manager.kyma.reasons import (
    CHANNEL_NOT_FOUND,
    DOWNGRADE_NOT_ALLOWED,
    MODULE_MANDATORY,
    MODULE_NOT_FOUND,
    MODULE_TEMPLATE_NOT_FOUND,
    MODULE_UNMANAGED,
    ROLLOUT_PENDING,
    WAITS_FOR_MAINTENANCE,
    WAITS_FOR_USER,
)
from lifecycle_manager.module_catalog.audience import BARRED, Exclusion, excluded
from lifecycle_manager.module_catalog.identity import version_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.releases import ChannelRollouts, is_way_back, released_by, version_for_new
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.skr.removals import continued_removal, is_removal_held, removal_waits_for
from lifecycle_manager_api import (
    InvalidVersion,
    KymaModule,
    KymaSpec,
    ModuleRelease,
    ModuleReleaseMeta,
    ModuleTemplate,
    ObjectMeta,
    State,
    Version,
    names,
    template_name,
)
from lifecycle_manager_api.conditions import shortened

MAX_MODULES = 300
"""More than any catalog offers; users may write anything. Modules of the catalog are shown before unknown ones."""
_ONLY_WARNINGS = frozenset({MODULE_MANDATORY, MODULE_NOT_FOUND})
"""Refusals that may be no more than a typing error."""
_MANDATORY = Exclusion(MODULE_MANDATORY, "is mandatory: it is installed everywhere and can't be chosen")


@dataclass(frozen=True, slots=True)
class Installed:
    """The installed version of a module, the channel that it came from, and what a rollout released last.

    A module that installs nothing has no Manifest, so that no rollout can release a version to it.
    """

    version: str
    channel: str
    release: ModuleRelease | None = None
    has_manifest: bool = True

    def is_reached(self, channel: str) -> bool:
        """Tell whether the rollouts of a channel release versions to it."""
        return bool(self.version) and self.has_manifest and self.channel == channel


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one entry of `spec.modules` stands for: the version in force and its template, or why there is none.

    `reason` says why the module does not have the requested version; then `state` is the best state it can have,
    and `again` is when that may change. `available` is the version that users may have now if they want. With
    `keeps_content` the Manifest installs what it does, whatever its template has become. `removed_since` is when the
    catalog was changed whose effect an operator continued.
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
    available: str = ""
    keeps_content: bool = False
    removed_since: datetime | None = None

    @property
    def is_refused(self) -> bool:
        """Whether there is no version of the module that the Kyma may have."""
        return self.state is State.ERROR or self.reason in _ONLY_WARNINGS

    @property
    def is_excluded(self) -> bool:
        """Whether the Kyma may not have the module at all, so that an installed version does not stay either."""
        return self.reason == BARRED


def limited(requested: Sequence[KymaModule], known: Container[str]) -> tuple[tuple[KymaModule, ...], int]:
    """Return the modules to decide on, and how many more there are.

    These are all that are known by their name, and the first of the others. Of two entries for one module the first
    counts.
    """
    entries: dict[str, KymaModule] = {}
    for module in requested:
        entries.setdefault(module.name, module)
    if len(entries) <= MAX_MODULES:
        return tuple(entries.values()), 0
    others = set(islice((name for name in entries if name not in known), MAX_MODULES))
    decided = tuple(module for name, module in entries.items() if name in known or name in others)
    return decided, len(entries) - len(decided)


def shown_channel(channel: str) -> str:
    """Return a channel at a length that a status has room for, for each of its modules; none that is offered is cut."""
    return shortened(channel, MAX_NAME_LENGTH)


def resolve(
    spec: KymaSpec, kyma: ObjectMeta, *, offer: Offer, installed: Mapping[str, Installed], timing: Timing
) -> tuple[Resolution, ...]:
    """Resolve every module that a Kyma requests, in its order. Of two entries for one module the first counts."""
    requested: dict[str, KymaModule] = {}
    for module in spec.modules:
        requested.setdefault(module.name, module)
    rules = _Rules(spec, kyma, offer, timing)
    return tuple(rules.resolve(each, installed.get(name)) for name, each in requested.items())


@dataclass(frozen=True, slots=True)
class _Rules:
    spec: KymaSpec
    kyma: ObjectMeta
    offer: Offer
    timing: Timing

    def resolve(self, module: KymaModule, installed: Installed | None) -> Resolution:
        channel = shown_channel(module.channel or self.spec.channel)
        if not module.managed:
            return self._keep(_unmanaged(module, channel), installed)
        found = _requested(module, channel, labels=self.kyma.labels, offer=self.offer)
        rollouts = self.timing.rollouts.get(module.name)
        if isinstance(found, Exclusion):
            refused = _refused(module, channel, found)
            if refused.is_excluded and is_removal_held(self.timing.held_removals.get(module.name), self.kyma):
                what = f"{refused.message}, and its removal waits for {removal_waits_for(self.kyma.name)}"
                refused = replace(refused, state=State.WARNING, reason=DELETION_HELD, message=what)
            elif refused.is_excluded:
                changed_at = self.timing.released_at.get(module.name)
                refused = replace(refused, removed_since=continued_removal(changed_at, self.kyma, self.timing.now))
            if rollouts is None or refused.reason != MODULE_TEMPLATE_NOT_FOUND:
                return refused if refused.is_excluded else self._keep(refused, installed)
            found = refused  # its rollout, or what takes that back, may give another version than this
        if rollouts is not None:
            found = self._rolled_out(found, rollouts.get(channel), installed)
        if installed is None or not installed.version or installed.version == found.version:
            return found
        if found.reason:
            return self._keep(found, installed)
        deferred = (
            _downgrade(found, installed)
            or _not_its_turn(found, installed, kyma=self.kyma, timing=self.timing)
            or _until_users_want(found, installed, offer=self.offer, timing=self.timing)
            or _outside_of_maintenance(found, self.spec, kyma=self.kyma, timing=self.timing)
        )
        return found if deferred is None else self._keep(deferred, installed)

    def _rolled_out(
        self, found: Resolution, rollouts: ChannelRollouts | None, installed: Installed | None
    ) -> Resolution:
        """Return the version that the rollouts of a channel let this Kyma have; the installed one stays till then."""
        if installed is None or not installed.is_reached(found.channel):
            version = version_for_new(rollouts, self.kyma.labels) if rollouts is not None else found.version
            is_back = rollouts is not None and is_way_back(rollouts[0].spec)
            given = self._given(found, version)
            # The channel's version is better than none, unless it is being taken back.
            return given if given.template is not None or is_back else found
        release = released_by(rollouts[0], installed.release) if rollouts is not None else None
        version = release.version if release is not None else installed.version
        if version != installed.version:
            return self._given(found, version)
        keeps = release is None or (found.module.name, found.channel) in self.timing.changed_templates
        if version == self.offer.version_in(found.module.name, found.channel):
            return replace(found, keeps_content=keeps)
        return Resolution(found.module, found.channel, reason=ROLLOUT_PENDING, keeps_content=keeps)

    def _given(self, found: Resolution, version: str) -> Resolution:
        """Return the version that a rollout gives, without a template where there is none."""
        module = found.module.name
        if (template := self.offer.template(module, version)) is not None:
            return Resolution(found.module, found.channel, version, template)
        message = f"ModuleTemplate {template_name(module, version)} {self.offer.absence(module, version)}"
        message = f"the rollout gives this cluster {version}, but {message}"
        reason = MODULE_TEMPLATE_NOT_FOUND
        return Resolution(found.module, found.channel, state=State.WARNING, reason=reason, message=message)

    def _keep(self, deferred: Resolution, installed: Installed | None) -> Resolution:
        """Return the resolution with the installed version, and its template if that is still offered."""
        if installed is None:
            return deferred
        template = self.offer.template(deferred.module.name, installed.version)
        return replace(deferred, version=installed.version, template=template)


def _requested(module: KymaModule, channel: str, *, labels: Mapping[str, str], offer: Offer) -> Resolution | Exclusion:
    """Return the version that a module would have if it was not installed yet, or why it can't have any."""
    release = offer.releases.get(module.name)
    template = offer.by_channel.get((module.name, channel)) if release is None else _released(release, channel, offer)
    if template is None:
        return Exclusion(MODULE_NOT_FOUND, f"is not in the catalog for channel {channel!r}; check its name")
    if isinstance(template, Exclusion):
        return excluded(labels, None, release) or template
    if (refused := excluded(labels, template, release)) is not None:
        return refused
    if not offer.can_be_chosen(template):
        return _MANDATORY
    return Resolution(module, channel, version_of(template), template)


def _released(release: ModuleReleaseMeta, channel: str, offer: Offer) -> ModuleTemplate | Exclusion:
    if release.spec.mandatory is not None:
        return _MANDATORY
    version = offer.version_in(release.spec.module_name, channel)
    if not version:
        offered = ", ".join(sorted(entry.channel for entry in release.spec.channels)) or "none"
        return Exclusion(CHANNEL_NOT_FOUND, f"has no channel {channel!r}; its channels are: {offered}")
    of_module = release.spec.module_name
    missing = f"ModuleTemplate {template_name(of_module, version)} {offer.absence(of_module, version)}"
    missing = f"is released as {version} in channel {channel!r}, but {missing}"
    return offer.named(of_module, version) or Exclusion(MODULE_TEMPLATE_NOT_FOUND, missing)


def _unmanaged(module: KymaModule, channel: str) -> Resolution:
    message = "stays as it is, since it is not managed"
    return Resolution(module, channel, state=State.UNMANAGED, reason=MODULE_UNMANAGED, message=message)


def _refused(module: KymaModule, channel: str, why: Exclusion) -> Resolution:
    message = f"the module {why.message}"
    state = State.WARNING if why.reason in _ONLY_WARNINGS else State.ERROR
    return Resolution(module, channel, state=state, reason=why.reason, message=message)


def _downgrade(found: Resolution, installed: Installed) -> Resolution | None:
    """Refuse a version that is lower than the installed one, unless a rollout may go back to it.

    Within a channel the precedence of Semantic Versioning counts. Where users switch channels, pre-releases of one
    version count as equal.
    """
    try:
        new, old = Version.parse(found.version), Version.parse(installed.version)
    except InvalidVersion:
        return None
    switched = bool(installed.channel) and installed.channel != found.channel
    release = installed.release
    if release is not None and release.allow_downgrade and release.version == found.version:
        return None
    lower = (new.major, new.minor, new.patch) < (old.major, old.minor, old.patch) if switched else new < old
    if not lower:
        return None
    return replace(
        found,
        state=State.WARNING,
        reason=DOWNGRADE_NOT_ALLOWED,
        message=f"the module stays at version {installed.version}: channel {found.channel!r} has "
        f"{found.version}, and no module is downgraded; remove the module and add it again for that",
    )


def _not_its_turn(found: Resolution, installed: Installed, *, kyma: ObjectMeta, timing: Timing) -> Resolution | None:
    """Defer a new version of a channel until it is this Kyma's turn.

    The time of the release is by the API server's clock, which may be a little ahead of this one. A time further ahead
    than a rollout takes is ignored.
    """
    released_at = timing.released_at.get(found.module.name)
    if found.module.name in timing.rollouts:
        return None  # its rollouts decide
    if released_at is None or installed.channel != found.channel:
        return None  # a switch of channels takes effect at once
    turn = released_at + timing.max_delay * _share(kyma, found)
    if turn <= timing.now or released_at > timing.now + timing.max_delay:
        return None
    return replace(found, reason=ROLLOUT_PENDING, again=turn)


def _until_users_want(found: Resolution, installed: Installed, *, offer: Offer, timing: Timing) -> Resolution | None:
    """Defer a new version of a channel until users choose it, or until the deadline of its release."""
    name, release = found.module.name, offer.releases.get(found.module.name)
    if found.module.upgrade_strategy != "manual" or installed.channel != found.channel:
        return None
    since = installed.release.at if installed.release is not None else timing.released_at.get(name)
    deadline = _deadline_of(release)
    at = since + deadline if since is not None and deadline is not None else None
    if at is not None and at <= timing.now:
        return None
    by = f" It is installed by itself at {at.isoformat(timespec='seconds')}." if at is not None else ""
    message = f"version {found.version} is available: upgradeStrategy automatic installs it.{by}"
    return replace(found, reason=WAITS_FOR_USER, message=message, again=at, available=found.version)


def _deadline_of(release: ModuleReleaseMeta | None) -> timedelta | None:
    text = release.metadata.annotations.get(names.UPGRADE_DEADLINE, "") if release is not None else ""
    try:
        return parse_duration(text) if text else None
    except ValueError:
        return timedelta()  # users must not wait for ever because of a typing error


def _outside_of_maintenance(
    found: Resolution, spec: KymaSpec, *, kyma: ObjectMeta, timing: Timing
) -> Resolution | None:
    """Defer a version that requires downtime until a maintenance window is open."""
    if found.template is None or not found.template.spec.requires_downtime or spec.skip_maintenance_windows:
        return None
    window = timing.next_window(kyma.labels)
    if window is not None and window.holds(timing.now):
        return None
    waiting = replace(found, reason=WAITS_FOR_MAINTENANCE, maintenance=True)
    what = f"the module is upgraded to {found.version} in a maintenance window"
    if window is None or timing.policy_error:
        why = timing.policy_error or "none is planned for this cluster"
        return replace(waiting, state=State.WARNING, message=f"{what}, which is not known: {why}")
    return replace(waiting, message=f"{what}, the next of which begins {window.begin.isoformat()}", again=window.begin)


def _share(kyma: ObjectMeta, found: Resolution) -> float:
    """Return at which share of a rollout it is a Kyma's turn: always the same, and evenly spread over the fleet."""
    return offset_of(f"{kyma.uid or kyma.name}/{found.module.name}/{found.version}")
