"""Operators that are declared by decorators: what `kube-runtime run` runs. A thin layer over Manager and Controller.

A function gets an object of its kind and what to do for it. It is called after each change of the object and of objects
that it controls, so a child that somebody deletes or changes is repaired.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec

from kube_crds import CustomResource, Struct
from kube_runtime.apply.settled import is_settled
from kube_runtime.controller.causes import Causes
from kube_runtime.controller.controller import Controller
from kube_runtime.controller.workers import Result
from kube_runtime.informer import Change, Informer
from kube_runtime.manager import Manager
from kube_runtime.resource import JsonObject, ObjectKey, Resource

__all__ = ["Operator", "Owner"]

C = TypeVar("C", bound=CustomResource)


@dataclass(frozen=True, kw_only=True, eq=False)
class Owner(Generic[C]):
    """An object that is reconciled, as the owner of its children."""

    item: C
    resource: Resource[C]
    manager: Manager
    operator: str
    children: Mapping[str, Informer[JsonObject]]

    async def apply(self, kind: Resource[JsonObject], document: JsonObject) -> JsonObject:
        """Apply a child, without a request where it is there already as the document says.

        Name and namespace are the owner's unless the document has others. The child is deleted with its owner. Raises
        ValueError for a kind that is not in `owns`, as its changes would trigger nothing.
        """
        informer = self.children.get(kind.plural_name)
        if informer is None:
            raise ValueError(f"{kind} is not in owns= of the function that reconciles {self.resource}")
        key = self.resource.key_of(self.item)
        given = document.get("metadata", {})
        metadata = {"name": key.name, "ownerReferences": [self._reference()], **given}
        if kind.namespaced:
            metadata = {"namespace": key.namespace, **metadata}
        wanted = {**document, "metadata": metadata}
        child = ObjectKey(metadata.get("namespace", ""), metadata["name"])
        found = informer.get(child)
        if found is not None and is_settled(found, wanted, self.operator):
            return found
        client = self.manager.client
        answer = await client.apply(kind, child.name, wanted, child.namespace or None, field_manager=self.operator)
        informer.wrote(answer)
        return answer

    async def write_status(self, status: Struct) -> None:
        """Write the object's status, without a request where it is so already."""
        if getattr(self.item, "status", None) == status:
            return
        key, document = self.resource.key_of(self.item), {"status": msgspec.to_builtins(status)}
        answer = await self.manager.client.apply(
            self.resource, key.name, document, key.namespace, field_manager=self.operator, subresource="status"
        )
        self.manager.informer(self.resource).wrote(answer)

    def event(self, reason: str, note: str, *, type: Literal["Normal", "Warning"] = "Normal") -> None:  # noqa: A002 - as the field is called
        """Record an Event about the object."""
        self.manager.events.record(self.resource, self.item, reason, note, type=type)

    def _reference(self) -> JsonObject:
        return {
            "apiVersion": self.resource.api_version,
            "kind": self.resource.kind,
            "name": self.item.metadata.name,
            "uid": self.item.metadata.uid,
            "controller": True,
            "blockOwnerDeletion": True,
        }


Reconcile = Callable[[C, Owner[C]], Awaitable[float | None]]


class Operator:
    """The functions that reconcile, by kind. `name` is the field manager of what is applied."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.kinds: list[type[CustomResource]] = []
        self._declared: list[Callable[[Manager, Callable[[ObjectKey], str]], None]] = []

    def reconciles(
        self, kind: type[C], *, owns: Iterable[Resource[JsonObject]] = ()
    ) -> Callable[[Reconcile[C]], Reconcile[C]]:
        """Declare the function that reconciles the objects of a kind.

        It is not called for objects that are being deleted. It returns the seconds after which it is called again
        without a change, or None. What it raises is retried, with growing pauses.

        - `owns`: the kinds of the objects that it applies
        """
        owned = tuple(owns)

        def decorated(function: Reconcile[C]) -> Reconcile[C]:
            self.kinds.append(kind)
            self._declared.append(lambda manager, owner: self._declare(manager, owner, kind, owned, function))
            return function

        return decorated

    def setup(self, manager: Manager, owner: Callable[[ObjectKey], str] = lambda key: key.name) -> None:
        """Declare all controllers at a Manager; `owner` as of `Manager.controller`."""
        for declare in self._declared:
            declare(manager, owner)

    def _declare(
        self,
        manager: Manager,
        owner: Callable[[ObjectKey], str],
        kind: type[C],
        owned: tuple[Resource[JsonObject], ...],
        function: Reconcile[C],
    ) -> None:
        resource = Resource.of(kind)
        items = manager.informer(resource)
        children = {each.plural_name: manager.informer(each) for each in owned}

        async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
            item = items.get(key)
            if item is None or item.metadata.being_deleted:
                return Result()
            owning = Owner(item=item, resource=resource, manager=manager, operator=self.name, children=children)
            return Result(requeue_after=await function(item, owning))

        controller: Controller[ObjectKey, None] = manager.controller(resource.plural_name, owner=owner)
        controller.watches(items)
        for informer in children.values():
            controller.watches(informer, to=_controlled_by(resource))
        controller.reconciles(reconcile)


def _controlled_by(resource: Resource[Any]) -> Callable[[Change[JsonObject]], Iterable[ObjectKey]]:
    def keys(change: Change[JsonObject]) -> Iterable[ObjectKey]:
        for item in (change.old, change.new):
            metadata = cast("JsonObject", item["metadata"]) if item is not None else {}
            for reference in metadata.get("ownerReferences") or ():
                named = (reference["apiVersion"], reference["kind"])
                if reference.get("controller") and named == (resource.api_version, resource.kind):
                    namespace = str(metadata.get("namespace", "")) if resource.namespaced else ""
                    yield ObjectKey(namespace, reference["name"])

    return keys
