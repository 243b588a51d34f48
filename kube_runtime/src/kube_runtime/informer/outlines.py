"""Which objects an informer keeps whole: those that this replica reconciles. Of the others it keeps an outline.

Every replica sees the whole fleet, as some rules count all of it. But what only the replica needs that reconciles an
object is most of what an object takes. A replica that is about to gain keys reads their objects again, and has them
whole before it owns them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from kube_runtime.resource import ObjectKey

__all__ = ["Outline", "Outlines"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outline(Generic[T]):
    """What is kept of a kind's objects that are another replica's.

    - `owner`: by whose name an object is shared among replicas; "" for one that every replica keeps whole
    - `of`: an object without what only its own replica reads; key, version, uid and owner stay
    """

    owner: Callable[[T], str]
    of: Callable[[T], T]


class Outlines(Generic[T]):
    """The objects of a cache of which there is an outline. `holds`: whether an owner is this replica's, or will be."""

    def __init__(self, outline: Outline[T], holds: Callable[[str], bool]) -> None:
        self._outline = outline
        self._holds = holds
        self._keys: set[ObjectKey] = set()

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def is_held(self, item: T) -> bool:
        """Tell whether an object is to be kept whole."""
        owner = self._outline.owner(item)
        return not owner or self._holds(owner)

    def kept(self, key: ObjectKey, item: T) -> T:
        """Return what is kept of an object: itself, or its outline."""
        if self.is_held(item):
            self._keys.discard(key)
            return item
        self._keys.add(key)
        return self._outline.of(item)

    def dropped(self, key: ObjectKey) -> None:
        """Note that an object is not in the cache any more."""
        self._keys.discard(key)
