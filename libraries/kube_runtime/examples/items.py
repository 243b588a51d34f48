"""A child for each item of a list, whose number is not known before; children of removed items are deleted."""

from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime import Resource
from kube_runtime.operator import Operator, Owner

CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
operator = Operator("items")


class ShelfSpec(Struct, frozen=True, kw_only=True):
    books: tuple[str, ...] = ()
    """The names of the books on it."""


class ShelfStatus(Struct, frozen=True, kw_only=True):
    books: tuple[str, ...] = ()
    """The books that have a ConfigMap."""


class Shelf(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "items.example.com"
    spec: ShelfSpec = ShelfSpec()
    """What is wanted."""
    status: ShelfStatus = ShelfStatus()
    """What there is."""


@operator.reconciles(Shelf, owns=[CONFIG_MAPS])
async def fill(shelf: Shelf, owner: Owner[Shelf]) -> None:
    wanted = {*shelf.spec.books}
    known = wanted.union(shelf.status.books)
    await owner.write_status(ShelfStatus(books=tuple(sorted(known))))  # before they are created: none is forgotten
    for book in wanted:
        await owner.apply(CONFIG_MAPS, {"metadata": {"name": f"{owner.key.name}-{book}"}, "data": {"title": book}})
    for book in known - wanted:
        await owner.delete(CONFIG_MAPS, f"{owner.key.name}-{book}")
    await owner.write_status(ShelfStatus(books=tuple(sorted(wanted))))
