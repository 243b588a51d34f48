"""Causes of keys that this replica does not own yet.

An event is acknowledged by the replica that owns its key or is about to: its causes are held for the moment at which it
does. Most keys never come: every replica sees the changes of all keys. So only the newest causes are held, and not for
long. A key without causes needs none: one that is gained is reconciled from scratch.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from kube_runtime.controller.causes import NO_CAUSES, Causes

K = TypeVar("K", bound=Hashable)

MAX_HELD = 10_000
HELD_SECONDS = 120.0
"""Longer than a replica takes to give keys away: it finishes what it is doing with them."""


class HeldCauses(Generic[K]):
    """Causes by key, those that were held first at the front."""

    def __init__(self) -> None:
        self._held: OrderedDict[K, tuple[float, Causes]] = OrderedDict()

    def hold(self, key: K, causes: Causes) -> None:
        """Hold causes of a key, in addition to those that it has."""
        now = asyncio.get_running_loop().time()
        if len(causes) or causes.overflowed:  # a trace is no cause
            before = self._held.pop(key, (now, NO_CAUSES))[1]
            self._held[key] = (now, before.merged(causes))
        self._drop_old(now)

    def keys(self) -> frozenset[K]:
        """Return the keys with causes."""
        return frozenset(self._held)

    def release(self, is_owned: Callable[[K], bool]) -> list[tuple[K, Causes]]:
        """Return the causes of keys that are owned by now, and hold them no longer."""
        if self._held:
            self._drop_old(asyncio.get_running_loop().time())
        return [(key, self._held.pop(key)[1]) for key in tuple(self._held) if is_owned(key)]

    def _drop_old(self, now: float) -> None:
        while self._held and (len(self._held) > MAX_HELD or next(iter(self._held.values()))[0] < now - HELD_SECONDS):
            self._held.popitem(last=False)
