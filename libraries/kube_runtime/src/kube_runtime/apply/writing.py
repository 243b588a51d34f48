"""Writes one object by server-side apply, and gets around what the API server refuses it for where that loses nothing.

What former field managers own is moved to the applier, before the apply where the object was read, otherwise after it.
One apply may not be enough: with the last items of a list a server removes the list, and policies judge the object
before the write, too. So a document of which a change leaves something out is sent again, once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kube_runtime.apply.claims import claim_of
from kube_runtime.apply.field_sets import ownership_patch
from kube_runtime.apply.former_managers import has_applied, merged_into
from kube_runtime.apply.kept import KeptObjects
from kube_runtime.apply.objects import Identity, InventoryEntry
from kube_runtime.apply.recreation import may_recreate
from kube_runtime.apply.refusals import expanded, immutable_fields, is_shrunk
from kube_runtime.apply.settled import holds
from kube_runtime.client.client import Client
from kube_runtime.client.decoding import decoding_for
from kube_runtime.exceptions import AlreadyExists, ApiError, ClusterUnreachable, Conflict, Invalid, KubeError, NotFound
from kube_runtime.resource import JsonObject, Resource

_OF_NO_OBJECT = "1"
"""A resource version that no object has: etcd begins with it, and its first write has the next."""
_NO_VERSION = "resourceVersion should not be set on objects to be created"


class ObjectTarget(NamedTuple):
    """An object to be written, its document, and where is noted that the server has written it, and what is kept."""

    resource: Resource[JsonObject]
    entry: InventoryEntry
    document: JsonObject
    written: set[Identity]
    kept: KeptObjects

    @property
    def place(self) -> tuple[str, str | None]:
        """Name and namespace."""
        return self.entry.name, self.entry.namespace or None


class Written(NamedTuple):
    """An object as it is now; `before` is None where it was not read first."""

    live: JsonObject
    created: bool
    before: JsonObject | None


@dataclass(frozen=True, eq=False, kw_only=True)
class ObjectWriter:
    """Writes objects of one cluster under one field manager; see `Applier` for what the attributes mean."""

    client: Client
    field_manager: str
    former_managers: frozenset[str]
    recreate_annotation: str
    owns: Callable[[InventoryEntry, JsonObject], bool]

    async def write(
        self, target: ObjectTarget, before: JsonObject | None, *, is_known: bool, may_delete: bool
    ) -> Written:
        """Apply a document. `is_known`: it was applied before. `may_delete`: to create it anew. Raises KubeError."""
        try:
            live, created = await self._send(target)
        except Invalid as refusal:
            if is_shrunk(target.entry, refusal):
                live = await self._read(target)
                target = target._replace(document=expanded(target.document, live))
                return Written(*await self._send(target), live)
            live, created, before = await self._resolve(refusal, target, before, may_delete=may_delete)
        is_first = not (created or is_known)
        taken = await self._take_over(target, live, is_first=is_first) is not live  # it was not read before
        if taken or not (created or is_unchanged(before, live) or holds(live, target.document)):
            live, _ = await self._send(target)
        return Written(live, created, before)

    async def create(self, target: ObjectTarget) -> Written:
        """Apply a document of an object that does not exist. Raises KubeError, Conflict where it does.

        An apply with a resource version creates an object, and changes none that has another one. A server that creates
        none with a version has said by that that there is none.
        """
        metadata = {**target.document["metadata"], "resourceVersion": _OF_NO_OBJECT}
        try:
            return Written(*await self._send(target._replace(document={**target.document, "metadata": metadata})), None)
        except ApiError as refusal:
            if _NO_VERSION not in str(refusal):
                raise
        return Written(*await self._send(target), None)

    async def taken_over(self, target: ObjectTarget, live: JsonObject) -> JsonObject | None:
        """Move what former field managers own to this one; return the object.

        None where somebody else has written it meanwhile: then the apply finds those in its answer.
        """
        is_first = not has_applied(live, {self.field_manager, *self.former_managers})
        try:
            return await self._take_over(target, live, is_first=is_first)
        except (Conflict, NotFound):
            return None

    async def _send(self, target: ObjectTarget) -> tuple[JsonObject, bool]:
        """Apply a document; return the object, and whether it is new."""
        name, namespace = target.place
        applied = await self.client.apply_undecoded(
            target.resource, name, target.document, namespace, field_manager=self.field_manager
        )
        target.written.add(target.entry.identity)
        live = decoding_for(target.resource.type).object(applied.body)
        target.kept.keep(live)
        return live, applied.code == 201

    async def _read(self, target: ObjectTarget) -> JsonObject:
        live = await self.client.get(target.resource, *target.place)
        target.kept.keep(live)
        return live

    async def _take_over(self, target: ObjectTarget, live: JsonObject, *, is_first: bool) -> JsonObject:
        """Move what others own to this field manager, in the version that was read; return the object.

        `is_first`: nothing was applied to it before, so that it may have been installed by a command.
        """
        fields = merged_into(self.field_manager, live, self.former_managers, installed=is_first)
        return live if fields is None else await self._patch(target, ownership_patch(live, fields))

    async def _resolve(
        self, refusal: Invalid, target: ObjectTarget, before: JsonObject | None, *, may_delete: bool
    ) -> Written:
        """Apply a document that was refused for what the object is; raise the refusal where nothing helps.

        Tried once: the next apply begins anew.
        """
        fields = immutable_fields(refusal)
        if fields and not may_delete:
            raise refusal
        try:
            live = await self._read(target)
            if not fields:
                return Written(*await self._send_claiming(refusal, target, live), live)
            if not self.may_recreate(target.entry, target.document, live):
                raise refusal
            uid, is_going = live["metadata"].get("uid"), live["metadata"].get("deletionTimestamp")
            if not is_going and await self.client.delete(target.resource, *target.place, uid=uid) is None:
                return Written(*await self._send(target), live)
        except ClusterUnreachable:
            raise
        except KubeError:
            raise refusal from None
        why = f"it is deleted to be created anew with another {', '.join(fields)}; waiting until it is gone"
        raise AlreadyExists(409, "AlreadyExists", why)

    def may_recreate(self, entry: InventoryEntry, document: JsonObject, live: JsonObject) -> bool:
        """Tell whether an object of which a field may not be changed may be deleted for that."""
        managers = {self.field_manager, *self.former_managers}
        return self.owns(entry, live) and may_recreate(entry, document, self.recreate_annotation, live, managers)

    async def _send_claiming(self, refusal: Invalid, target: ObjectTarget, live: JsonObject) -> tuple[JsonObject, bool]:
        """Apply a document that owns what others have where the server refuses it. What did not help is given back."""
        claim = claim_of(self.field_manager, live, target.document, refusal.causes)
        if claim is None:
            raise refusal
        await self._patch(target, claim.trial, dry_run=True)
        claimed = await self._patch(target, ownership_patch(live, claim.managed_fields))
        try:
            return await self._send(target)
        except Invalid:
            await self._patch(target, ownership_patch(claimed, live["metadata"]["managedFields"]))
            raise

    async def _patch(self, target: ObjectTarget, patch: JsonObject, *, dry_run: bool = False) -> JsonObject:
        name, namespace = target.place
        live = await self.client.merge_patch(
            target.resource, name, patch, namespace, field_manager=self.field_manager, dry_run=dry_run
        )
        target.kept.keep(live)
        return live


def is_unchanged(before: JsonObject | None, live: JsonObject) -> bool:
    """Tell whether an apply has changed nothing, where that is known."""
    return before is not None and before["metadata"].get("resourceVersion") == live["metadata"].get("resourceVersion")
