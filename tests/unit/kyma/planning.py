"""Reconciles a Kyma without a server: each step that is taken succeeds, or is refused."""

from collections.abc import AsyncIterator, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any, cast

import msgspec

from kube_runtime import AlreadyExists, Causes, Client, KubeError, ObjectKey, Result, Step
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager.kyma.controller import KymaReconciler
from lifecycle_manager.kyma.crd import KymaCrd
from lifecycle_manager.kyma.deletion.plan import DeletionDone, plan_deletion
from lifecycle_manager.kyma.pull_secret import PullSecret
from lifecycle_manager.kyma.rules import Correction, visible_metadata
from lifecycle_manager.kyma.snapshot import KymaSnapshot, KymaSnapshots, KymaState, SkrView
from lifecycle_manager.kyma.writes import KymaWrites
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.options.kymas import KymaSettings
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager_api import Kyma, KymaStatus, names
from tests import builders
from tests.unit.kyma.steps import (
    AddFinalizer,
    ChangeModules,
    CreateKyma,
    InstallCrd,
    ModuleChange,
    ReadSkr,
    RemoveSkrFinalizer,
    SkrStep,
    SyncMetadata,
    SyncPullSecret,
    WriteSkrStatus,
)

MAX_STEPS = 20
Refused = Mapping[type[Step], Exception]


def snapshot(
    kyma: Kyma, skr: SkrView | Exception, offer: Offer, *, crd: str = "hash", settings: Any = None, **more: Any
) -> KymaSnapshot:
    """Return a snapshot after the SKR was read, or after that failed."""
    failures = ((ReadSkr(), skr),) if isinstance(skr, Exception) else ()
    return KymaSnapshot(
        kyma=kyma,
        offer=offer,
        crd=KymaCrd({}, crd),
        skr=None if isinstance(skr, Exception) else skr,
        failures=failures,
        settings=KymaSettings(**settings or {}),
        **{"timing": Timing(builders.NOW), **more},
    )


@dataclass(frozen=True)
class Ended:
    """How a reconcile ended: the status that was written in KCP, when the next one follows, and what was raised."""

    status: KymaStatus | None
    requeue_after: float | None
    error: Exception | None


@dataclass(frozen=True)
class Planned:
    """The steps of one reconcile, and its end."""

    steps: tuple[Step, ...]
    end: Ended

    @property
    def in_skr(self) -> tuple[Step, ...]:
        return tuple(each for each in self.steps if isinstance(each, SkrStep))

    @property
    def in_kcp(self) -> tuple[Step | ModuleChange, ...]:
        """Return the steps in KCP, and the changes of modules."""
        others = (each for each in self.steps if each not in self.in_skr and not isinstance(each, ChangeModules))
        return (*self.changes, *others)

    @property
    def changes(self) -> tuple[ModuleChange, ...]:
        return tuple(change for each in self.steps if isinstance(each, ChangeModules) for change in each.changes)

    @property
    def shown(self) -> KymaStatus:
        (written,) = [each.status for each in self.steps if isinstance(each, WriteSkrStatus)]
        return written

    @property
    def status(self) -> KymaStatus:
        assert self.end.status is not None, "no status is written"
        return self.end.status

    @property
    def is_quiet(self) -> bool:
        """Tell whether nothing is written to the SKR or to KCP."""
        return not self.steps and self.end.status is None


def planned(seen: KymaSnapshot, refused: Refused | None = None) -> Planned:
    """Reconcile a Kyma; some types of steps are refused."""
    if seen.kyma.metadata.being_deleted:
        return _deleted(seen, refused or {})
    recorded = _Recorded(seen, refused or {})
    reconciler = KymaReconciler(
        cast("KymaSnapshots", recorded), cast("Connections", recorded), cast("KymaWrites", recorded)
    )
    result, error = Result(), None
    try:
        result = _finished(reconciler.reconcile(KYMAS.key_of(seen.kyma), Causes(), KymaState(repeats=seen.repeats)))
    except KubeError as raised:
        error = raised
    return Planned(tuple(recorded.steps), Ended(recorded.status, result.requeue_after, error))


def _deleted(seen: KymaSnapshot, refused: Refused) -> Planned:
    """Take the planned steps of a deletion to their end."""
    steps: list[Step] = []
    while not isinstance(step := plan_deletion(seen), DeletionDone):
        assert len(steps) < MAX_STEPS, f"no end: {steps}"
        assert step not in steps, f"planned twice: {step}"
        steps.append(step)
        if (error := refused.get(type(step))) is not None:
            seen = replace(seen, failures=(*seen.failures, (step, error)))
        else:
            seen = replace(seen, taken=(*seen.taken, step))
    return Planned(tuple(steps), Ended(step.status, step.requeue_after, step.error))


def _finished(coroutine: Coroutine[Any, Any, Result]) -> Result:
    """Run a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as stopped:
        return cast("Result", stopped.value)
    raise AssertionError("it waits for something")


@dataclass
class _Recorded:
    """Stands for what a reconcile reads and writes by; writes down the steps, and refuses some."""

    seen: KymaSnapshot
    refused: Refused
    steps: list[Step] = field(default_factory=list)
    status: KymaStatus | None = None

    def _take(self, step: Step) -> None:
        assert step not in self.steps, f"taken twice: {step}"
        self.steps.append(step)
        if (error := self.refused.get(type(step))) is not None:
            raise error

    @property
    def kymas(self) -> Mapping[ObjectKey, Kyma]:
        return {KYMAS.key_of(self.seen.kyma): self.seen.kyma}

    def read(self, *_: object) -> KymaSnapshot:
        return self.seen

    @asynccontextmanager
    async def to(self, _: str) -> AsyncIterator[Client]:
        yield cast("Client", None)

    async def read_skr(self, _: Client, seen: KymaSnapshot, __: KymaState) -> KymaSnapshot:
        for failure in seen.failures:
            raise failure[1]
        if seen.skr is None:
            self._take(ReadSkr())
        return seen

    async def add_finalizer(self, kyma: Kyma) -> Kyma:
        self._take(AddFinalizer())
        metadata = msgspec.structs.replace(kyma.metadata, finalizers=(names.KYMA_FINALIZER,))
        return msgspec.structs.replace(kyma, metadata=metadata)

    async def install_crd(self, *_: object) -> None:
        self._take(InstallCrd())

    async def create_kyma(self, _: Client, kyma: Kyma, *, is_replaced: bool) -> Kyma | None:
        labels, annotations = visible_metadata(kyma)
        try:
            self._take(CreateKyma(kyma.spec, labels, annotations, is_replaced))
        except AlreadyExists:
            return None
        created = builders.kyma("default", labels=labels, annotations=annotations, namespace="kyma-system")
        return msgspec.structs.replace(created, spec=kyma.spec)

    async def copy_pull_secret(self, _: Client, known: PullSecret) -> PullSecret:
        if known.is_due:
            self._take(SyncPullSecret())
        return known.written()

    async def correct(self, _: Client, correction: Correction) -> None:
        self._take(SyncMetadata(*correction))

    async def release_skr_kyma(self, *_: object) -> None:
        self._take(RemoveSkrFinalizer())

    async def write_skr_status(self, _: Client, __: Kyma, status: KymaStatus) -> None:
        self._take(WriteSkrStatus(status))

    async def change_modules(self, _: Kyma, changes: Iterable[ModuleChange]) -> None:
        if changing := tuple(changes):
            self._take(ChangeModules(changing))

    async def write_status(self, _: Kyma, status: KymaStatus) -> None:
        self.status = status
