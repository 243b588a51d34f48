"""What a function of an Operator gets beside its object: how it applies children, reads other objects and reports."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from functools import reduce
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from kube_crds import Condition, ObjectMetadata, Struct, find, set_condition
from kube_runtime.apply.settled import is_settled
from kube_runtime.exceptions import NotFound, NotServed
from kube_runtime.informer import Change, Informer
from kube_runtime.manager import Manager
from kube_runtime.resource import JsonObject, ObjectKey, Resource

T = TypeVar("T")
S = TypeVar("S")
Place = tuple[str, ObjectKey]
"""An object of a kind, by its plural name."""


class ReadObjects:
    """Which objects of other kinds each key has read: their changes enqueue it."""

    def __init__(self, informers: Mapping[str, Informer[Any]]) -> None:
        self.informers = informers
        self._readers: defaultdict[Place, set[ObjectKey]] = defaultdict(set)
        self._places: defaultdict[ObjectKey, set[Place]] = defaultdict(set)

    def note(self, reader: ObjectKey, place: Place) -> None:
        """Remember that a key has read an object, or found it missing."""
        self._readers[place].add(reader)
        self._places[reader].add(place)

    def forget(self, reader: ObjectKey, *, but: AbstractSet[Place] = frozenset()) -> None:
        """Forget what a key has read, but for what it has just read again."""
        for place in self._places.pop(reader, set()) - but:
            self._readers[place].discard(reader)
            if not self._readers[place]:
                del self._readers[place]
        if but:
            self._places[reader] = {*but}

    def readers_of(self, resource: Resource[T]) -> Callable[[Change[T]], Iterable[ObjectKey]]:
        """Return the function from a change of a kind to the keys that have read the object."""

        def keys(change: Change[T]) -> Iterable[ObjectKey]:
            item = change.new if change.new is not None else cast("T", change.old)
            return tuple(self._readers.get((resource.plural_name, resource.key_of(item)), ()))

        return keys


@dataclass(frozen=True, kw_only=True, eq=False)
class Owner(Generic[T]):
    """An object that is reconciled, as the owner of its children."""

    item: T
    resource: Resource[T]
    manager: Manager
    operator: str
    children: Mapping[str, Informer[JsonObject]]
    reads: ReadObjects
    has_read: set[Place] = field(default_factory=set)
    changes: list[str] = field(default_factory=list)
    """What was written, for the log."""

    @property
    def key(self) -> ObjectKey:
        """Namespace and name of the object."""
        return self.resource.key_of(self.item)

    async def apply(self, kind: Resource[JsonObject], document: JsonObject) -> JsonObject:
        """Apply a child, without a request where it is there already as the document says; return it.

        Name and namespace are the owner's unless the document has others. The child is deleted with its owner. Raises
        ValueError for a kind that is not in `owns`, as its changes would trigger nothing, and for a child outside of
        the owner's namespace without `ownerReferences: []`: Kubernetes would delete it before its owner, or never.
        """
        informer = self._children_of(kind)
        given = document.get("metadata", {})
        metadata = {"name": self.key.name, "ownerReferences": [self._reference()], **given}
        if kind.namespaced:
            metadata = {"namespace": self.key.namespace, **metadata}
        wanted = {**document, "metadata": metadata}
        child = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        if self.key.namespace not in {"", child.namespace} and "ownerReferences" not in given:
            todo = "give it `ownerReferences: []`, and delete it in a function of finalizes()"
            raise ValueError(f"{kind} {child} is outside of the namespace of its owner {self.key}: {todo}")
        found = informer.get(child)
        if found is not None and is_settled(found, wanted, self.operator):
            return found
        client = self.manager.client
        answer = await client.apply(kind, child.name, wanted, child.namespace or None, field_manager=self.operator)
        informer.wrote(answer)
        if found is None or kind.version_of(found) != kind.version_of(answer):
            self.changes.append(f"applied {kind.kind} {child.name}")
        return answer

    async def delete(self, kind: Resource[JsonObject], name: str = "") -> None:
        """Delete a child in the owner's namespace, without a request where there is none; foreign objects stay."""
        child = ObjectKey(self.key.namespace if kind.namespaced else "", name or self.key.name)
        found = self._children_of(kind).get(child)
        owners = [each["uid"] for each in (found or {"metadata": {}})["metadata"].get("ownerReferences") or ()]
        if found is not None and self.resource.uid_of(self.item) in owners:
            uid = found["metadata"]["uid"]
            await self.manager.client.delete(kind, child.name, child.namespace or None, uid=uid)
            self.changes.append(f"deleted {kind.kind} {child.name}")

    def get(self, kind: Resource[S], name: str, namespace: str | None = None) -> S | None:
        """Return an object of a kind in `reads`, from the cache: from now on its changes call the function again.

        It is one in the owner's namespace unless another is given. Raises ValueError for a kind that is not in `reads`.
        """
        informer = cast("Informer[S] | None", self.reads.informers.get(kind.plural_name))
        if informer is None:
            raise ValueError(f"{kind} is not in reads= of the function that reconciles {self.resource}")
        wanted = ObjectKey((namespace or self.key.namespace) if kind.namespaced else "", name)
        self.has_read.add((kind.plural_name, wanted))
        self.reads.note(self.key, (kind.plural_name, wanted))
        return informer.get(wanted)

    def conditions(self, *new: Condition) -> tuple[Condition, ...]:
        """Return conditions for the status: transition times change only with the status of a condition."""
        known: tuple[Condition, ...] = getattr(self._status, "conditions", ())
        generation, now = metadata_of(self.item).generation, self.manager.clock.now()
        current = (msgspec.structs.replace(each, observed_generation=generation) for each in new)
        merged = reduce(lambda conditions, each: set_condition(conditions, each, now), current, tuple(known))
        return tuple(each for each in merged if find(new, each.type) is not None)

    async def write_status(self, status: Struct) -> None:
        """Write the object's status, without a request where it is so already.

        Raises NotServed for a kind without the subresource.
        """
        if self._status == status:
            return
        document = {"status": msgspec.to_builtins(status)}
        client, (namespace, name) = self.manager.client, self.key
        try:
            answer = await client.apply(
                self.resource, name, document, namespace, field_manager=self.operator, subresource="status"
            )
        except (NotFound, NotServed):
            await client.get(self.resource, name, namespace)  # else it is the object that is not there
            todo = "declare `status` in its class, or `subresources: {status: {}}` in its CRD, and apply the CRD"
            raise NotServed(404, "NotServed", f"{self.resource} has no status subresource: {todo}") from None
        self._items.wrote(answer)
        self.changes.append("wrote the status")

    def event(self, reason: str, note: str, *, type: Literal["Normal", "Warning"] = "Normal") -> None:  # noqa: A002 - as the field is called
        """Record an Event about the object."""
        self.manager.events.record(self.resource, self.item, reason, note, type=type)

    @property
    def _items(self) -> Informer[T]:
        return self.manager.informer(self.resource)

    @property
    def _status(self) -> object:
        """The newest known status, also one that this reconcile has written."""
        return getattr(self._items.get(self.key) or self.item, "status", None)

    def _children_of(self, kind: Resource[JsonObject]) -> Informer[JsonObject]:
        informer = self.children.get(kind.plural_name)
        if informer is None:
            raise ValueError(f"{kind} is not in owns= of the function that reconciles {self.resource}")
        return informer

    def _reference(self) -> JsonObject:
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.key.name,
            "uid": self.resource.uid_of(self.item),
            "controller": True,
            "blockOwnerDeletion": True,
        }


def metadata_of(item: Any) -> ObjectMetadata:
    """Return the metadata of an object, also of one that is read as a dict."""
    known = item["metadata"] if isinstance(item, dict) else item.metadata
    return known if isinstance(known, ObjectMetadata) else msgspec.convert(known, ObjectMetadata)


def controlled_by(resource: Resource[Any]) -> Callable[[Change[JsonObject]], Iterable[ObjectKey]]:
    """Return the function from a change of a child to the key of its controlling owner."""

    def keys(change: Change[JsonObject]) -> Iterable[ObjectKey]:
        for item in (change.old, change.new):
            metadata = cast("JsonObject", item["metadata"]) if item is not None else {}
            for reference in metadata.get("ownerReferences") or ():
                named = (reference["apiVersion"], reference["kind"])
                if reference.get("controller") and named == (resource.api_version, resource.kind):
                    namespace = str(metadata.get("namespace", "")) if resource.namespaced else ""
                    yield ObjectKey(namespace, reference["name"])

    return keys
