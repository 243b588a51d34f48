"""The resource in KCP that a set of objects belongs to, as one reconcile reads and writes it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar

import msgspec

from kube_runtime import Client, EventRecorder, Informer, KubeError, run_steps
from lifecycle_manager.contract.writes import remove_finalizer, set_finalizers, write_status
from lifecycle_manager.object_set.borrowing import LazySkrClient
from lifecycle_manager.object_set.reporting import ready_transition
from lifecycle_manager.object_set.steps import End, Step, is_end
from lifecycle_manager.skr import SkrAccessError, SkrFailure, failure_of
from lifecycle_manager_api import Manifest, ManifestStatus, ObjectMeta, State, SyncResource, SyncResourceStatus

Owner = TypeVar("Owner", Manifest, SyncResource)
Status = ManifestStatus | SyncResourceStatus
Snapshot = TypeVar("Snapshot")


class RecordingFailed(Exception):
    """The intent could not be recorded in KCP, so nothing was applied."""


@dataclass(eq=False)
class Record(Generic[Owner]):
    """The owner of a set in one reconcile. `item` is the resource as this reconcile has read and written it."""

    kcp: Client
    events: EventRecorder
    informer: Informer[Owner]
    item: Owner
    finalizer: str = field(kw_only=True)
    former_finalizers: tuple[str, ...] = field(default=(), kw_only=True)
    action: str = field(kw_only=True)

    async def take_steps(
        self,
        seen: Snapshot,
        skr: LazySkrClient,
        *,
        plan: Callable[[Snapshot], Step],
        apply: Callable[[Snapshot, Any], Awaitable[Snapshot]],
        unreachable: Callable[[Owner, SkrFailure], Status],
    ) -> End:
        """Take the steps of a plan to their end. Raises KubeError or SkrAccessError after the status says so."""
        try:
            async with skr:
                return await run_steps(seen, plan=plan, apply=apply, is_done=is_end)
        except (KubeError, SkrAccessError) as error:
            await self.report(unreachable(self.item, failure_of(error)))
            raise

    async def intend(self, status: Status) -> None:
        """Record an intent before anything is applied: the finalizer where it is missing, and the status.

        Only in the status, which nobody else may write. Raises RecordingFailed.
        """
        metadata: ObjectMeta = self.item.metadata
        try:
            if self.finalizer not in metadata.finalizers:
                finalizers = (*metadata.finalizers, self.finalizer)
                self.informer.wrote(await set_finalizers(self.kcp, self.informer.resource, metadata, finalizers))
                metadata = msgspec.structs.replace(metadata, finalizers=finalizers)
                self.item = msgspec.structs.replace(self.item, metadata=metadata)
            await self._write(status)
        except KubeError as error:
            raise RecordingFailed(f"the intent could not be recorded in KCP: {error}") from error

    async def report(self, status: Status) -> None:
        """Write a status, and an Event where its Ready condition is another one. Raises KubeError."""
        ready = ready_transition(self.item.status, status)
        await self._write(status)
        if ready is not None:
            kind: Literal["Normal", "Warning"] = "Warning" if status.state in {State.ERROR, State.WARNING} else "Normal"
            resource = self.informer.resource
            self.events.record(resource, self.item, ready.reason, ready.message, type=kind, action=self.action)

    async def remove_finalizer(self, *, of_others: bool = False) -> None:
        """Remove the finalizer where it is set, and those of former versions or of all others. Raises KubeError."""
        removed = self.item.metadata.finalizers if of_others else (self.finalizer, *self.former_finalizers)
        answer = await remove_finalizer(self.kcp, self.informer.resource, self.item.metadata, *removed)
        if answer is not None:
            self.informer.wrote(answer)

    async def _write(self, status: Status) -> None:
        if status != self.item.status:
            self.informer.wrote(await write_status(self.kcp, self.informer.resource, self.item.metadata, status))
            self.item = msgspec.structs.replace(self.item, status=status)
