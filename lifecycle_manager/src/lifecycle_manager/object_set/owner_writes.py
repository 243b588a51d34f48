"""Writes of the resource in KCP that a set of objects belongs to: intent, finalizer, status and Events."""

from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

import msgspec

from kube_runtime import Client, EventRecorder, Informer, KubeError, Manager
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.contract.writes import remove_finalizers, set_finalizers, write_status
from lifecycle_manager.object_set.reporting import ready_transition
from lifecycle_manager_api import Manifest, ManifestStatus, ObjectMeta, State, SyncResource, SyncResourceStatus, names

Owner = TypeVar("Owner", Manifest, SyncResource)
Status = ManifestStatus | SyncResourceStatus


class RecordingFailed(KubeError):
    """The intent could not be recorded in KCP, so nothing was applied."""


@dataclass(frozen=True, eq=False, kw_only=True)
class OwnerWrites(Generic[Owner]):
    """Writes the owners of one kind. What was written is returned, and known to the informer."""

    kcp: Client
    events: EventRecorder
    informer: Informer[Owner]
    finalizer: str
    action: str

    @classmethod
    def of_sync_resources(cls, manager: Manager, informer: Informer[SyncResource]) -> "OwnerWrites[SyncResource]":
        return OwnerWrites(
            kcp=manager.client,
            events=manager.events,
            informer=informer,
            finalizer=names.SYNC_RESOURCE_FINALIZER,
            action="Apply",
        )

    async def intend(self, owner: Owner, status: Status) -> Owner:
        """Record an intent before anything is applied: the finalizer where it is missing, and the status.

        Only in the status, which nobody else may write. Raises RecordingFailed.
        """
        metadata: ObjectMeta = owner.metadata
        try:
            if self.finalizer not in metadata.finalizers:
                finalizers = (*metadata.finalizers, self.finalizer)
                self.informer.wrote(await set_finalizers(self.kcp, self.informer.resource, metadata, finalizers))
                metadata = msgspec.structs.replace(metadata, finalizers=finalizers)
                owner = msgspec.structs.replace(owner, metadata=metadata)
            return await self._write(owner, status)
        except KubeError as error:
            raise RecordingFailed(f"the intent could not be recorded in KCP: {error}") from error

    async def report(self, owner: Owner, status: Status) -> None:
        """Write a status, and an Event where its Ready condition is another one. Raises KubeError."""
        ready = ready_transition(owner.status, status)
        await self._write(owner, status)
        if ready is not None:
            kind: Literal["Normal", "Warning"] = "Warning" if status.state in {State.ERROR, State.WARNING} else "Normal"
            self.record(owner, ready.reason, ready.message, kind)

    def record(self, owner: Owner, reason: str, note: str, kind: Literal["Normal", "Warning"] = "Warning") -> None:
        self.events.record(self.informer.resource, owner, reason, note, type=kind, action=self.action)

    async def remove_finalizer(self, owner: Owner, *, of_others: bool = False) -> None:
        """Remove the finalizer where it is set, and those of the former version or of all others. Raises KubeError."""
        found = owner.metadata.finalizers
        removed = found if of_others else [each for each in found if each == self.finalizer or is_former(each)]
        await remove_finalizers(self.kcp, self.informer, owner.metadata, *removed)

    async def _write(self, owner: Owner, status: Status) -> Owner:
        if status == owner.status:
            return owner
        # Rollouts own the release: they write it as a field manager of their own.
        sent = msgspec.structs.replace(status, release=None) if isinstance(status, ManifestStatus) else status
        self.informer.wrote(await write_status(self.kcp, self.informer.resource, owner.metadata, sent))
        return msgspec.structs.replace(owner, status=status)
