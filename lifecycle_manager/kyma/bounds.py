"""How much a status says at most: users may ask for whatever they like, and every word of it is stored twice."""

from collections.abc import Sequence

from lifecycle_manager_api import KymaModuleStatus

MOST_MODULES = 300
"""More than any catalog offers. Modules of the catalog are shown before those that nobody knows."""

LONGEST_NAME = 128
LONGEST_TEXT = 512


def shown(modules: Sequence[KymaModuleStatus]) -> tuple[KymaModuleStatus, ...]:
    """Return the modules that a status has room for, in their order."""
    if len(modules) <= MOST_MODULES:
        return tuple(modules)
    known = [number for number, each in enumerate(modules) if each.template is not None or each.manifest is not None]
    others = sorted(set(range(len(modules))) - set(known))
    return tuple(modules[number] for number in sorted([*known, *others][:MOST_MODULES]))
