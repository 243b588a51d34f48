"""`klm rollout list`, `status`, `approve`, `pause`, `resume`, `halt` and `undo`."""

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from kube_runtime import Client
from kyma_fleet.documents import print_document, reference
from kyma_fleet.problems import Problem
from kyma_fleet.rollouts.plan import (
    SteeringVerb,
    change_of,
    channel_of,
    chosen,
    done_by,
    latest_of,
    may_hurry,
    undoing,
    undone_by,
)
from kyma_fleet.rollouts.report import RolloutList, RolloutStatus
from kyma_fleet.screen import Screen
from kyma_fleet.steering.command import FIELD_MANAGER, who
from kyma_fleet.steering.report import ChangedObject, ChangeReport
from lifecycle_manager.contract.resources import MODULE_ROLLOUTS, MODULE_TEMPLATES
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager_api import ModuleRollout, as_document, names

WATCH_SECONDS = 2.0
ENDED = frozenset({"Completed", "Superseded"})
DONE = {"approve": "approved", "pause": "paused", "resume": "resumed", "halt": "halted"}


async def list_rollouts(kcp: Client, screen: Screen, *, everything: bool) -> int:
    """Print the latest rollout of each channel, or all of them."""
    rollouts = await _read(kcp)
    shown = sorted(rollouts, key=lambda each: each.metadata.name) if everything else latest_of(rollouts)
    print_document(RolloutList(at=datetime.now(UTC), items=tuple(shown)), screen)
    return 0


async def status(kcp: Client, screen: Screen, name: str, channel: str, *, watch: bool) -> int:
    """Print how far a rollout is; with `watch` until it ends. Returns 1 where it is halted."""
    while True:
        rollout = chosen(await _read(kcp), name, channel)
        print_document(RolloutStatus(rollout=rollout), screen, is_one_of_many=watch)
        screen.flush()
        if not watch or rollout.status.phase in ENDED:
            return 1 if rollout.status.phase == "Halted" else 0
        await asyncio.sleep(WATCH_SECONDS)
        if screen.form == "table":
            screen.print()


async def steer(kcp: Client, screen: Screen, verb: SteeringVerb, name: str, channel: str, *, wave: str = "") -> int:
    """Change what operators decide about a rollout. Raises Problem, KubeError."""
    rollouts = await _read(kcp)
    rollout = chosen(rollouts, name, channel)
    latest = channel_of(rollouts, rollout)[0]
    if rollout is not latest:
        raise Problem(f"rollout {rollout.metadata.name} is superseded by {latest.metadata.name}")
    by = await who(kcp)
    change = change_of(rollout, verb, wave=wave, by=by, at=datetime.now(UTC).replace(microsecond=0))
    metadata = rollout.metadata
    if not change:
        print_document(ChangeReport(message=f"nothing to do: rollout {metadata.name} is {DONE[verb]} already"), screen)
        return 0
    patch = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": change}
    await kcp.merge_patch(MODULE_ROLLOUTS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER)
    _print_change(screen, f"rollout {metadata.name}: {DONE[verb]} by {by}", metadata.name)
    return 0


async def undo(
    kcp: Client, screen: Screen, name: str, channel: str, *, at_once: bool, confirm: Callable[[str], bool]
) -> int:
    """Create the rollout that takes another one back. Raises Problem, KubeError."""
    rollouts = await _read(kcp)
    rollout = chosen(rollouts, name, channel)
    of_channel = channel_of(rollouts, rollout)
    by = undone_by(of_channel, rollout)
    if by is not None and not (at_once and may_hurry(of_channel, by)):
        print_document(ChangeReport(message=f"nothing to do: {done_by(of_channel, by)}"), screen)
        return 0
    back = by or undoing(of_channel, rollout, at_once=at_once)
    spec, metadata = back.spec, back.metadata
    how = "all clusters at once" if at_once else "clusters wave by wave"
    if not confirm(f"return {how} from {spec.module_name} {spec.former_version} to {spec.version}?"):
        raise Problem("not confirmed; nothing changed. Use --yes")
    if by is None:
        document = {key: value for key, value in as_document(back).items() if key != "status"}
        await kcp.create(MODULE_ROLLOUTS, document, metadata.namespace, field_manager=FIELD_MANAGER)
    else:
        patch = {"metadata": {"resourceVersion": metadata.resource_version}, "spec": {"atOnce": True}}
        await kcp.merge_patch(MODULE_ROLLOUTS, metadata.name, patch, metadata.namespace, field_manager=FIELD_MANAGER)
    offer = Offer.of((await kcp.list(MODULE_TEMPLATES, names.KCP_NAMESPACE)).items, ())
    why = offer.absence(spec.module_name, spec.version)
    missing = f"; its ModuleTemplate {why}: no cluster returns to {spec.version} before"
    note = "" if offer.template(spec.module_name, spec.version) is not None else missing
    message = f"rollout {spec.undoes}: taken back by {metadata.name}; klm rollout status {metadata.name}{note}"
    _print_change(screen, message, metadata.name)
    return 0


def _print_change(screen: Screen, message: str, name: str) -> None:
    print_document(
        ChangeReport(message=message, objects=(ChangedObject(reference(MODULE_ROLLOUTS.kind, name)),)), screen
    )


async def _read(kcp: Client) -> list[ModuleRollout]:
    return [each async for page in kcp.pages(MODULE_ROLLOUTS, names.KCP_NAMESPACE) for each in page.items]
