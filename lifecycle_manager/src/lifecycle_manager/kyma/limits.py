"""Limits on what one Kyma may ask for. Its users may write anything.

Every text of a status is stored twice, and no other Kyma is reconciled while one is being decided on.
"""

from collections.abc import Container, Sequence
from itertools import islice

from lifecycle_manager_api import KymaModule, KymaModuleStatus

MAX_MODULES = 300
"""More than any catalog offers. Modules of the catalog are shown before unknown ones."""

MAX_NAME_LENGTH = 128
MAX_MESSAGE_LENGTH = 512
MAX_SUMMARY_LENGTH = 1024


def limited(requested: Sequence[KymaModule], known: Container[str]) -> tuple[tuple[KymaModule, ...], int]:
    """Return the modules to decide on, and how many more there are.

    These are all that are known by their name, and the first of the others. Of two entries for one module the first
    counts.
    """
    entries: dict[str, KymaModule] = {}
    for module in requested:
        entries.setdefault(module.name, module)
    if len(entries) <= MAX_MODULES:
        return tuple(entries.values()), 0
    others = set(islice((name for name in entries if name not in known), MAX_MODULES))
    decided = tuple(module for name, module in entries.items() if name in known or name in others)
    return decided, len(entries) - len(decided)


def shown(modules: Sequence[KymaModuleStatus]) -> tuple[KymaModuleStatus, ...]:
    """Return the modules that a status has room for, in their order."""
    if len(modules) <= MAX_MODULES:
        return tuple(modules)
    known = [number for number, each in enumerate(modules) if each.template is not None or each.manifest is not None]
    others = sorted(set(range(len(modules))) - set(known))
    return tuple(modules[number] for number in sorted([*known, *others][:MAX_MODULES]))
