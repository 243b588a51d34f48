"""Whose Watchers are still those of the former version: they do not sign events, and are replaced one by one."""

from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FormerWatchers:
    """Unsigned events are accepted from these runtimes alone, by their TLS certificate, and only during a takeover.

    `is_under_way`: certificates of the adopted CA are still trusted. `is_former`: the Watcher of a runtime has not been
    replaced yet.
    """

    is_under_way: Callable[[], bool] = lambda: False
    is_former: Callable[[str], bool] = lambda _: False


NO_FORMER_WATCHERS = FormerWatchers()
