"""Which objects an informer keeps whole: those that this replica reconciles. Of the others it keeps an outline.

Every replica sees the whole fleet, as some rules count all of it. But what only the replica needs that reconciles an
object is most of what an object takes. A replica that is about to gain keys reads their objects again, and has them
whole before it owns them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.informer.sharing import sharer_for
from kube_runtime.resource import ObjectKey

__all__ = ["Outline", "Outlines"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outline(Generic[T]):
    """What is kept of a kind's objects that are another replica's.

    - `owner`: by whose name an object is shared among replicas; "" for one that every replica keeps whole
    - `of`: an object without what only its own replica reads; key, version, uid and owner stay
    - `pooled`: fields, at any depth, of which `of` keeps equal values once: their strings need not be shared
    """

    owner: Callable[[T], str]
    of: Callable[[T], T]
    pooled: tuple[str, ...] = ()


class Outlines(Generic[T]):
    """The objects of a cache of which there is an outline. `holds`: whether an owner is this replica's, or will be."""

    def __init__(self, kind: type[T], outline: Outline[T], holds: Callable[[str], bool]) -> None:
        self._outline = outline
        self._share = sharer_for(kind, without=outline.pooled)
        self._holds = holds
        self._keys: set[ObjectKey] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def is_held(self, item: T) -> bool:
        """Tell whether an object is to be kept whole."""
        owner = self._outline.owner(item)
        return not owner or self._holds(owner)

    def of(self, item: T) -> T:
        """Return the outline of an object."""
        outline = self._outline.of(item)
        self._share(outline)
        return outline

    def note(self, key: ObjectKey, is_outline: bool) -> None:
        """Note whether the cache has an outline under a key."""
        if is_outline:
            self._keys.add(key)
        else:
            self._keys.discard(key)
