"""What an operator does to a fleet: pause, resume, reconcile. Each leaves who, when and why, and an Event.

First which objects are changed and how, in pure functions, then what is printed, then the command.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from kube_runtime import Client, EventRecorder, KubeError, Resource
from kyma_fleet.control_plane import require_module
from kyma_fleet.documents import Document, Part, print_document, reference
from kyma_fleet.explanation.marks import PAUSED_BY, PAUSED_REASON, RECONCILE_BY, RECONCILE_REASON
from kyma_fleet.problems import Problem, line_for, unknown_module
from kyma_fleet.reviews import FIELD_MANAGER, who
from kyma_fleet.running import each_of
from kyma_fleet.screen import LeftOut, Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.conditions import is_deletion_held
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_RELEASE_METAS
from lifecycle_manager_api import Kyma, Manifest, names
from lifecycle_manager_api.conditions import counted

Steered = Kyma | Manifest
Verb = Literal["pause", "resume", "reconcile", "continue"]
EVENT_REASONS = {
    "pause": "Paused",
    "resume": "Resumed",
    "reconcile": "ReconcileRequested",
    "continue": "DeletionContinued",
}
DONE = {"pause": "paused", "resume": "resumed", "reconcile": "reconcile requested", "continue": "deletions continued"}


@dataclass(frozen=True, slots=True)
class Order:
    """What is to be done, by whom, when and why."""

    verb: Verb
    by: str
    at: datetime
    reason: str


@dataclass(frozen=True, slots=True)
class ObjectPatch:
    """One object and the patch of its metadata."""

    item: Steered
    labels: dict[str, str | None]
    annotations: dict[str, str | None]

    @property
    def patch(self) -> dict[str, Any]:
        """The patch; it applies to this very object alone, not to a later one of the same name."""
        metadata: dict[str, Any] = {"annotations": self.annotations, "uid": self.item.metadata.uid}
        return {"metadata": metadata | ({"labels": self.labels} if self.labels else {})}


def plan(order: Order, items: Iterable[Steered]) -> Iterator[ObjectPatch]:
    """Return what to change; objects that are as they should be are left out."""
    return filter(None, (_step(order, item) for item in items))


def _step(order: Order, item: Steered) -> ObjectPatch | None:  # noqa: PLR0911 - one case for each verb
    at = order.at.isoformat(timespec="seconds")
    match order.verb:
        case "pause":
            if item.metadata.is_paused:
                return None
            marks: dict[str, str | None] = {PAUSED_BY: order.by, names.PAUSED_AT: at, PAUSED_REASON: order.reason}
            return ObjectPatch(item, {names.SKIP_RECONCILIATION: "true"}, marks)
        case "resume":
            if not item.metadata.is_paused:
                return None
            is_kept = item.metadata.is_kept_from_former_version
            return ObjectPatch(
                item,
                {} if is_kept else {names.SKIP_RECONCILIATION: None},
                dict.fromkeys((PAUSED_BY, names.PAUSED_AT, PAUSED_REASON)),
            )
        case "reconcile":
            return ObjectPatch(
                item, {}, {RECONCILE_BY: order.by, names.RECONCILE_AT: at, RECONCILE_REASON: order.reason}
            )
        case "continue":
            if not isinstance(item, Kyma):
                return None
            return ObjectPatch(item, {}, {names.CONTINUE_DELETION: at})


SHOWN = 20


class ChangedObject(Part, frozen=True):
    """An object as kind/name, and why it could not be changed."""

    object: str
    error: str | None = None


class ChangeReport(Document, frozen=True):
    """What a command has done, in one line, and the objects that it was done to."""

    message: str
    objects: tuple[ChangedObject, ...] = ()

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        if self.message:
            screen.print(plain(self.message))
        for each in [each for each in self.objects if each.error][:SHOWN]:
            screen.print(plain(f"not changed: {each.object}: {each.error}"))

    def names(self) -> Iterator[str]:
        """Return the objects that were changed."""
        return (each.object for each in self.objects if each.error is None)


@dataclass(frozen=True, slots=True)
class Subjects:
    """Which objects are meant: a Kyma, or one module of it; a module in all Kymas; or everything."""

    kyma: str = ""
    module: str = ""
    everything: bool = False


async def steer(
    kcp: Client,
    screen: Screen,
    verb: Verb,
    subjects: Subjects,
    *,
    reason: str,
    confirm: Callable[[str], bool],
) -> int:
    """Change the objects that are meant. Returns 1 where some could not be changed, or not be read."""
    left_out = LeftOut()
    items = await read_subjects(kcp, subjects, verb, left_out)
    if verb == "reconcile" and (paused := [each for each in items if each.metadata.is_paused]):
        raise Problem(f"nothing is reconciled while paused: {_described(paused)}; klm resume {subjects.kyma} ends that")
    order = Order(verb, await who(kcp), datetime.now(UTC), reason)
    steps = list(plan(order, items))
    if not items:
        print_document(ChangeReport(message="nothing to do: there is no Kyma and no Manifest"), screen)
        return left_out.code
    if not steps:
        state = "already" if verb == "pause" else "not"
        why = "there is no Kyma" if verb == "continue" else f"{_described(items)} {state} paused"
        print_document(ChangeReport(message=f"nothing to do: {why}"), screen)
        return left_out.code
    described = _described([each.item for each in steps])
    if not subjects.kyma and not confirm(f"{verb} {described}?"):
        raise Problem("not confirmed; nothing changed. Use --yes")
    recorder = EventRecorder(kcp, controller="klm", instance=order.by)
    failures = await _carry_out(kcp, recorder, order, steps)
    done = [each.item for each, failure in zip(steps, failures, strict=True) if failure is None]
    objects = [
        ChangedObject(reference(each.item.kind, each.item.metadata.name), line_for(failure) if failure else None)
        for each, failure in zip(steps, failures, strict=True)
    ]
    message = f"{_described(done)}: {DONE[verb]} by {order.by}" if done else ""
    if done and verb == "continue" and not any(map(is_deletion_held, items)):
        message += "; no Kyma and no Manifest reports one that is held"
    print_document(ChangeReport(message=message, objects=tuple(objects)), screen)
    return 1 if len(done) < len(steps) else left_out.code


async def read_subjects(kcp: Client, subjects: Subjects, verb: Verb, left_out: LeftOut) -> list[Steered]:
    """Return the objects that are meant. Raises Problem where there are none."""
    namespace = names.KCP_NAMESPACE
    labels = {names.KYMA_NAME: subjects.kyma, names.MODULE_NAME: subjects.module}
    selector = ",".join(f"{label}={value}" for label, value in labels.items() if value) or None
    kymas: list[Kyma] = []
    if subjects.kyma:
        kymas = [await kcp.get(KYMAS, subjects.kyma, namespace)]
    elif subjects.everything:
        kymas = [*(await kcp.list(KYMAS, namespace, unreadable=left_out)).items]
    manifests = (await kcp.list(MANIFESTS, namespace, label_selector=selector, unreadable=left_out)).items
    if not subjects.module:
        return [*kymas, *manifests]
    if not manifests:
        for each in kymas:
            require_module(each, subjects.module)
        releases = () if kymas else (await kcp.list(MODULE_RELEASE_METAS, namespace, unreadable=left_out)).items
        known = {each.spec.module_name for each in releases}
        if not kymas and subjects.module not in known:
            raise unknown_module(subjects.module, known)
        where = f"Kyma {subjects.kyma}" if subjects.kyma else "any cluster"
        way = f"klm {verb} {subjects.kyma or 'KYMA'} concerns all of a cluster"
        raise Problem(
            f"module {subjects.module} has no Manifest in {where}; its objects follow from ModuleConfigs: {way}"
        )
    return [*manifests]


async def _carry_out(
    kcp: Client, recorder: EventRecorder, order: Order, steps: list[ObjectPatch]
) -> list[KubeError | None]:
    note = f"{DONE[order.verb]} by {order.by}{': ' if order.reason else ''}{order.reason}"

    async def one(step: ObjectPatch) -> KubeError | None:
        resource: Resource[Steered] = KYMAS if isinstance(step.item, Kyma) else MANIFESTS  # type: ignore[assignment]
        metadata = step.item.metadata
        try:
            await kcp.merge_patch(resource, metadata.name, step.patch, metadata.namespace, field_manager=FIELD_MANAGER)
        except KubeError as error:
            return error
        await recorder.write_to(
            kcp, resource, step.item, EVENT_REASONS[order.verb], note, action=order.verb.capitalize()
        )
        return None

    return await each_of(steps, one)


def _described(items: list[Steered]) -> str:
    kymas = sum(isinstance(each, Kyma) for each in items)
    manifests = len(items) - kymas
    if len(items) == 1:
        return f"{items[0].kind} {plain(items[0].metadata.name)}"
    parts = [(kymas, "Kyma"), (manifests, "Manifest")]
    return " and ".join(counted(count, noun) for count, noun in parts if count)
