"""What happened to a Kyma between two statuses, as its users and operators are told in Kubernetes Events.

A state that changed is news, and so is the reason of a module that is in trouble. What stays as it was is not told a
second time.
"""

from collections.abc import Iterator
from typing import Literal, NamedTuple

from lifecycle_manager_api import KymaModuleStatus, KymaStatus, State

MOST_TOLD = 20
_TROUBLE = frozenset({State.ERROR, State.WARNING})


class Happening(NamedTuple):
    """One Event: whether it needs attention, a word for machines, and a sentence for people."""

    type: Literal["Normal", "Warning"]
    reason: str
    note: str


def happenings(before: KymaStatus, after: KymaStatus) -> tuple[Happening, ...]:
    """Return what is to be told: of many modules at once the first, and of the rest that there is more."""
    of_modules = tuple(_of_modules(before, after))
    more = len(of_modules) - MOST_TOLD
    rest = (Happening("Warning", "MoreModules", f"{more} more modules have news, see status.modules"),)
    return (*of_modules[:MOST_TOLD], *(rest if more > 0 else ()), *_of_the_whole(before, after))


def _of_modules(before: KymaStatus, after: KymaStatus) -> Iterator[Happening]:
    known = {module.name: module for module in before.modules}
    for module in after.modules:
        old = known.pop(module.name, None)
        if module.state in _TROUBLE:
            if old is None or (old.state, old.message) != (module.state, module.message):
                yield Happening("Warning", f"Module{module.state.value}", f"module {module.name}: {module.message}")
        elif old is not None and old.state is not module.state and module.state is State.READY:
            yield Happening("Normal", "ModuleReady", f"module {module.name} is ready{_in_version(module)}")
    for name in known:
        yield Happening("Normal", "ModuleRemoved", f"module {name} is gone")


def _of_the_whole(before: KymaStatus, after: KymaStatus) -> Iterator[Happening]:
    if before.state is not after.state and after.state is not State.EMPTY:
        operation = after.last_operation.operation if after.last_operation is not None else ""
        yield Happening("Warning" if after.state in _TROUBLE else "Normal", f"State{after.state.value}", operation)


def _in_version(module: KymaModuleStatus) -> str:
    return f" in version {module.version}" if module.version else ""
