"""`klm rollout`: how new versions go through the fleet in waves, and what operators do about it.

First what each verb changes in a ModuleRollout, in pure functions, then what is printed, then the commands.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any

import msgspec

from kube_runtime import Client, EventRecorder
from kube_runtime.ages import age
from kyma_fleet.documents import Document, print_document, reference
from kyma_fleet.problems import Problem, meant
from kyma_fleet.reviews import FIELD_MANAGER, who
from kyma_fleet.rollout_notes import DONE, EVENT_REASONS, STEERED, SteeringVerb, forward, note_of, without_effect
from kyma_fleet.running import once_answered
from kyma_fleet.screen import LeftOut, LiveTable, Screen
from kyma_fleet.steering import ChangedObject, ChangeReport
from kyma_fleet.text import plain
from lifecycle_manager.contract.resources import MODULE_ROLLOUTS, MODULE_TEMPLATES
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.releases import by_channel, in_force, is_way_back
from lifecycle_manager.rollout.standing import STATES, RolloutStanding, channel_of, standing_of, standings
from lifecycle_manager.rollout.waves import waves_in_order
from lifecycle_manager_api import (
    ModuleRollout,
    ModuleRolloutSpec,
    ObjectMeta,
    WaveApproval,
    WaveStatus,
    as_document,
    joined_name,
    names,
)

_ENDED = frozenset({"Superseded"})


def latest_of(rollouts: Iterable[ModuleRollout]) -> list[ModuleRollout]:
    """Return the rollout that counts of each module and channel, by their names."""
    known = by_channel(rollouts)
    return [known[module][channel][0] for module in sorted(known) for channel in sorted(known[module])]


def chosen(rollouts: Iterable[ModuleRollout], name: str, channel: str) -> ModuleRollout:
    """Return the rollout that is meant: by its name, or the latest of a module. Raises Problem."""
    all_of_them = list(rollouts)
    for each in all_of_them:
        if each.metadata.name == name:
            return each
    of_module = [each for each in latest_of(all_of_them) if each.spec.module_name == name]
    found = [each for each in of_module if channel in ("", each.spec.channel)]
    if len(found) == 1:
        return found[0]
    if not found:
        there = ", ".join(f"{each.metadata.name}" for each in latest_of(all_of_them)) or "none"
        where = f" in channel {channel}" if channel else ""
        close = meant(name, {each.spec.module_name for each in all_of_them})
        raise Problem(f"neither a rollout nor a module with one: {name}{where}. There is: {there}{close}")
    channels = ", ".join(each.spec.channel for each in found)
    raise Problem(f"module {name} has rollouts in several channels; choose one with --channel: {channels}")


def change_of(rollout: ModuleRollout, verb: SteeringVerb, *, wave: str, by: str, at: datetime) -> dict[str, Any]:
    """Return the patch of `spec` for a verb; empty where it is so already. Raises Problem where it can't be done."""
    spec, status = rollout.spec, rollout.status
    if status.phase in _ENDED:
        raise Problem(_ended(rollout))
    match verb:
        case "pause":
            return {} if spec.paused else {"paused": True}
        case "halt":
            return {} if spec.halted else {"halted": True}
        case "resume":
            failed = status.failed if status.failures_at_halt else 0  # else the strategy accepts them
            accepted = max(failed, status.failures_at_halt, spec.accepted_failures)
            wanted = {"paused": False, "halted": False, "acceptedFailures": accepted}
            has = {"paused": spec.paused, "halted": spec.halted, "acceptedFailures": spec.accepted_failures}
            return {} if wanted == has else wanted
        case "approve":
            return _approval(rollout, wave or status.wave, by, at)


def _approval(rollout: ModuleRollout, wave: str, by: str, at: datetime) -> dict[str, Any]:
    known = [each.name for each in waves_in_order(rollout.spec)]
    if wave not in known:
        given = f"there is no wave {wave}" if wave else "no wave waits"
        raise Problem(f"{given} in rollout {rollout.metadata.name}; its waves are: {', '.join(known)}")
    if any(each.wave == wave for each in rollout.spec.approvals):
        return {}
    approvals = (*rollout.spec.approvals, WaveApproval(wave=wave, by=by, at=at))
    return {"approvals": msgspec.to_builtins(approvals)}


def undone_by(channel: Sequence[ModuleRollout], rollout: ModuleRollout) -> ModuleRollout | None:
    """Return the rollout that takes another one back already, which may be that one itself; None where none does.

    `channel`: the rollouts of its channel, the latest first.
    """
    found = next((each for each in channel if each.spec.undoes == rollout.metadata.name), rollout)
    return found if is_way_back(found.spec) else None


def may_hurry(channel: Sequence[ModuleRollout], back: ModuleRollout) -> bool:
    """Tell whether a rollout is an undo wave by wave that can return the rest of the clusters at once."""
    is_under_way = back is channel[0] and back.status.phase not in {"Completed", *_ENDED}
    return bool(back.spec.undoes) and is_under_way and not back.spec.at_once


def done_by(channel: Sequence[ModuleRollout], back: ModuleRollout) -> str:
    """Say what a rollout takes back, and how to go further back and forward."""
    spec, standing = back.spec, in_force(channel)
    found = f"rollout {back.metadata.name} takes {spec.module_name} back from {spec.former_version} to {spec.version}"
    if standing is not None and standing.spec.former_version:
        found += f". Further back, to {standing.spec.former_version}: klm rollout undo {standing.metadata.name}"
    again = f", for {spec.former_version} again {spec.version} first" if spec.undoes else ""
    return f"{found}. Forward: give channel {spec.channel} another version{again}"


def undoing(channel: Sequence[ModuleRollout], rollout: ModuleRollout, *, at_once: bool) -> ModuleRollout:
    """Return the rollout that takes another one back: the one in force. Raises Problem where that can't be done.

    `channel`: the rollouts of its channel, the latest first.
    """
    spec, metadata, latest, standing = rollout.spec, rollout.metadata, channel[0], in_force(channel)
    if spec.former_version == spec.version:
        before = f", or klm rollout undo {standing.metadata.name}" if standing is not None else ""
        why = "has no other version, at most a change of the ModuleTemplate in place: change the template back"
        raise Problem(f"rollout {metadata.name} {why}{before}")
    if rollout is latest and rollout.status.phase in _ENDED:
        raise Problem(_ended(rollout))
    if rollout is not standing:
        force = standing or latest
        raise Problem(
            f"rollout {metadata.name} is superseded: {force.spec.version} of {force.metadata.name} is in force"
        )
    if not spec.former_version:
        raise Problem(f"there is no version to go back to: {forward(rollout)}")
    revision = latest.spec.revision + 1
    return ModuleRollout(
        metadata=ObjectMeta(
            name=joined_name(spec.module_name, f"{spec.channel}-{revision}"),
            namespace=metadata.namespace,
            labels={names.MODULE_NAME: spec.module_name, names.CHANNEL: spec.channel},
            owner_references=metadata.owner_references,
        ),
        spec=ModuleRolloutSpec(
            module_name=spec.module_name,
            channel=spec.channel,
            version=spec.former_version,
            former_version=spec.version,
            revision=revision,
            strategy=spec.strategy,
            undoes=metadata.name,
            at_once=at_once,
        ),
    )


def _ended(latest: ModuleRollout) -> str:
    return f"rollout {latest.metadata.name} has ended: rollouts do not decide about {latest.spec.module_name} any more"


TITLES = ("NAME", "VERSION", "PHASE", "WAVE", "UPDATED", "FAILED", "AGE")
WAVE_TITLES = ("WAVE", "TOTAL", "HEALTHY", "SOAKING", "GOING", "WAITING", "HELD", "FAILED", "AWAY", "STATE")
RARE_TITLES = frozenset({"HELD", "AWAY"})
"""Columns that are left out where no wave has such clusters."""
FAILED_TITLES = ("FAILED", "WAVE", "REASON", "MESSAGE")
NONE = "-"


class RolloutList(Document, frozen=True):
    """Some rollouts, each as it is in the API, and what they have come to, in the same order."""

    at: datetime
    items: tuple[ModuleRollout, ...]
    standings: tuple[RolloutStanding, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        rows = [
            (
                each.metadata.name,
                each.spec.version,
                standing.word,
                each.status.wave or NONE,
                f"{each.status.updated}/{each.status.clusters}",
                str(each.status.failed),
                age(each.metadata.creation_timestamp, self.at),
            )
            for each, standing in zip(self.items, self.standings, strict=True)
        ]
        if not LiveTable(screen, TITLES).print(rows):
            screen.print("there are no rollouts: no module with a RolloutStrategy has got a version yet")
        for standing in self.standings:
            if standing.text and not standing.successor:
                screen.print(plain(standing.text))

    def names(self) -> Iterator[str]:
        """Return the rollouts."""
        return (reference(each.kind, each.metadata.name) for each in self.items)


class RolloutStatus(Document, frozen=True):
    """One rollout, as it is in the API, and what it has come to."""

    rollout: ModuleRollout
    standing: RolloutStanding

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        spec, status, standing = self.rollout.spec, self.rollout.status, self.standing
        former = f", instead of {spec.former_version}" if spec.former_version else ""
        what = f"{spec.module_name} {spec.version} in channel {spec.channel}{former}"
        screen.print(screen.painted(plain(what), bold=True))
        word = screen.painted(standing.word, **screen.style_of(STATES[standing.word]))
        what = standing.text if standing.successor else status.message or "not begun"
        screen.print(f"  {word}: {plain(what)}.")
        if standing.text and not standing.successor:
            screen.print(f"  {plain(standing.text)}.")
        if status.failed_clusters:
            first = status.failed_clusters[0]
            screen.print(plain(f"  {first.kyma} failed first: {first.message or first.reason}"))
        if status.expected_end is not None:
            screen.print(f"  expected end: {status.expected_end:%Y-%m-%d %H:%M} UTC")
        if steered := self.rollout.metadata.annotations.get(STEERED):
            screen.print(plain(f"  last: {steered}"))
        for each in spec.approvals:
            when = f" at {each.at:%Y-%m-%d %H:%M} UTC" if each.at is not None else ""
            screen.print(plain(f"  wave {each.wave} was approved by {each.by or 'somebody'}{when}"))
        screen.print()
        waves = [dict(zip(WAVE_TITLES, _wave_row(each), strict=True)) for each in status.waves]
        titles = [each for each in WAVE_TITLES if each not in RARE_TITLES or any(wave[each] != "0" for wave in waves)]
        LiveTable(screen, titles).print([[wave[each] for each in titles] for wave in waves])
        if status.failed_clusters:
            screen.print()
            rows = [(each.kyma, each.wave, each.reason, each.message or NONE) for each in status.failed_clusters]
            LiveTable(screen, FAILED_TITLES).print(rows)
            if status.failed > len(rows):
                screen.print(f"and {status.failed - len(rows)} more")

    def names(self) -> Iterator[str]:
        """Return the rollout."""
        yield reference(self.rollout.kind, self.rollout.metadata.name)


def _wave_row(wave: WaveStatus) -> tuple[str, ...]:
    counts = (
        wave.clusters,
        wave.healthy,
        wave.soaking,
        wave.under_way,
        wave.waiting,
        wave.held,
        wave.failed,
        wave.unreachable,
    )
    state = "done" if wave.completed_at else "begun" if wave.started_at else "waiting"
    if state == "begun" and wave.settled_at is not None:
        state = "soaking" if wave.soaking else "failed" if wave.failed else state
    return wave.name, *map(str, counts), state


WATCH_SECONDS = 2.0
WATCHED_TO = frozenset({"Completed", "Superseded", "Halted"})
"""The phases in which a watch ends; like `kubectl rollout status` it does not wait for what somebody has to decide."""


async def list_rollouts(kcp: Client, screen: Screen, *, everything: bool) -> int:
    """Print the latest rollout of each channel, or all of them."""
    left_out = LeftOut()
    rollouts = await _read(kcp, left_out)
    shown = sorted(rollouts, key=lambda each: each.metadata.name) if everything else latest_of(rollouts)
    known = standings(rollouts)
    words = tuple(known[each.metadata.name] for each in shown)
    print_document(RolloutList(at=datetime.now(UTC), items=tuple(shown), standings=words), screen)
    return left_out.code


async def status(kcp: Client, screen: Screen, name: str, channel: str, *, watch: bool) -> int:
    """Print how far a rollout is; with `watch` until it ends or halts. Returns 1 where it is halted."""
    read = partial(_read, kcp, LeftOut())
    rollouts = await read()
    while True:
        rollout = chosen(rollouts, name, channel)
        standing = standing_of(rollout, channel_of(rollouts, rollout))
        print_document(RolloutStatus(rollout=rollout, standing=standing), screen, is_one_of_many=watch)
        screen.flush()
        if not watch or rollout.status.phase in WATCHED_TO:
            return 1 if rollout.status.phase == "Halted" else 0
        await asyncio.sleep(WATCH_SECONDS)
        if screen.form == "table":
            screen.print()
        rollouts = await once_answered(read)


async def steer(
    kcp: Client, screen: Screen, verb: SteeringVerb, name: str, channel: str, *, wave: str = "", reason: str = ""
) -> int:
    """Change what operators decide about a rollout. Raises Problem, KubeError."""
    left_out = LeftOut()
    rollouts = await _read(kcp, left_out)
    rollout = chosen(rollouts, name, channel)
    latest = channel_of(rollouts, rollout)[0]
    if rollout is not latest:
        raise Problem(f"rollout {rollout.metadata.name} is superseded by {latest.metadata.name}")
    by, at = await who(kcp), datetime.now(UTC).replace(microsecond=0)
    change = change_of(rollout, verb, wave=wave, by=by, at=at)
    metadata = rollout.metadata
    if nothing := without_effect(rollout, verb, change):
        print_document(ChangeReport(message=f"nothing to do: rollout {metadata.name} {nothing}"), screen)
        return left_out.code
    note = note_of(DONE[verb], by=by, at=at, reason=reason)
    marks = {"resourceVersion": metadata.resource_version, "annotations": {STEERED: note}}
    patch = {"metadata": marks, "spec": change}
    await kcp.merge_patch(MODULE_ROLLOUTS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER)
    recorder = EventRecorder(kcp, controller="klm", instance=by)
    await recorder.write_to(kcp, MODULE_ROLLOUTS, rollout, EVENT_REASONS[verb], note, action=verb.capitalize())
    _print_change(screen, f"rollout {metadata.name}: {DONE[verb]} by {by}", metadata.name)
    return left_out.code


async def undo(
    kcp: Client,
    screen: Screen,
    name: str,
    channel: str,
    *,
    at_once: bool,
    confirm: Callable[[str], bool],
    reason: str = "",
) -> int:
    """Create the rollout that takes another one back. Raises Problem, KubeError."""
    left_out = LeftOut()
    rollouts = await _read(kcp, left_out)
    rollout = chosen(rollouts, name, channel)
    of_channel = channel_of(rollouts, rollout)
    by = undone_by(of_channel, rollout)
    if by is not None and not (at_once and may_hurry(of_channel, by)):
        print_document(ChangeReport(message=f"nothing to do: {done_by(of_channel, by)}"), screen)
        return left_out.code
    back = by or undoing(of_channel, rollout, at_once=at_once)
    spec, metadata = back.spec, back.metadata
    how = "all clusters at once" if at_once else "clusters wave by wave"
    if not confirm(f"return {how} from {spec.module_name} {spec.former_version} to {spec.version}?"):
        raise Problem("not confirmed; nothing changed. Use --yes")
    note = note_of("begun", by=await who(kcp), at=datetime.now(UTC), reason=reason)
    if by is None:
        document = {key: value for key, value in as_document(back).items() if key != "status"}
        document["metadata"]["annotations"] = {STEERED: note}
        await kcp.create(MODULE_ROLLOUTS, document, metadata.namespace, field_manager=FIELD_MANAGER)
    else:
        patch = {
            "metadata": {"resourceVersion": metadata.resource_version, "annotations": {STEERED: note}},
            "spec": {"atOnce": True},
        }
        await kcp.merge_patch(MODULE_ROLLOUTS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER)
    offer = Offer.of((await kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE, unreadable=left_out)).items, ())
    absence = offer.absence(spec.module_name, spec.version)
    missing = f"; its ModuleTemplate {absence}: no cluster returns to {spec.version} before"
    added = "" if offer.template(spec.module_name, spec.version) is not None else missing
    message = f"rollout {spec.undoes}: taken back by {metadata.name}; klm rollout status {metadata.name}{added}"
    _print_change(screen, message, metadata.name)
    return left_out.code


def _print_change(screen: Screen, message: str, name: str) -> None:
    print_document(
        ChangeReport(message=message, objects=(ChangedObject(reference(MODULE_ROLLOUTS.kind, name)),)), screen
    )


async def _read(kcp: Client, left_out: LeftOut) -> list[ModuleRollout]:
    return [*(await kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE, unreadable=left_out)).items]
