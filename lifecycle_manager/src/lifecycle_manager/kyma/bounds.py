"""How much is made of what users ask for at most: that may be whatever they like.

Every word of a status is stored twice, and nobody else is served while one Kyma is decided on.
"""

from collections.abc import Container, Sequence
from itertools import islice

from lifecycle_manager_api import KymaModule, KymaModuleStatus

MOST_MODULES = 300
"""More than any catalog offers. Modules of the catalog are shown before those that nobody knows."""

LONGEST_NAME = 128
LONGEST_TEXT = 512


def heeded(asked: Sequence[KymaModule], known: Container[str]) -> tuple[tuple[KymaModule, ...], int]:
    """Return the modules to decide on, all that are known by their name and of the others the first, and how many more.

    Of two entries for one module the first counts.
    """
    entries: dict[str, KymaModule] = {}
    for module in asked:
        entries.setdefault(module.name, module)
    if len(entries) <= MOST_MODULES:
        return tuple(entries.values()), 0
    others = set(islice((name for name in entries if name not in known), MOST_MODULES))
    decided = tuple(module for name, module in entries.items() if name in known or name in others)
    return decided, len(entries) - len(decided)


def shown(modules: Sequence[KymaModuleStatus]) -> tuple[KymaModuleStatus, ...]:
    """Return the modules that a status has room for, in their order."""
    if len(modules) <= MOST_MODULES:
        return tuple(modules)
    known = [number for number, each in enumerate(modules) if each.template is not None or each.manifest is not None]
    others = sorted(set(range(len(modules))) - set(known))
    return tuple(modules[number] for number in sorted([*known, *others][:MOST_MODULES]))
