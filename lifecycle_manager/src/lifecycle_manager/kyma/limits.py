"""Limits on what one Kyma may ask for. Its users may write anything.

Every text of a status is stored twice, and no other Kyma is reconciled while one is being decided on.
"""

from collections.abc import Sequence

from lifecycle_manager_api import KymaModuleStatus

MAX_MODULES = 300
"""More than any catalog offers. Modules of the catalog are shown before unknown ones."""

MAX_NAME_LENGTH = 128
MAX_MESSAGE_LENGTH = 512
MAX_SUMMARY_LENGTH = 1024


def shown(modules: Sequence[KymaModuleStatus]) -> tuple[KymaModuleStatus, ...]:
    """Return the modules that a status has room for, in their order."""
    if len(modules) <= MAX_MODULES:
        return tuple(modules)
    known = [number for number, each in enumerate(modules) if each.template is not None or each.manifest is not None]
    others = sorted(set(range(len(modules))) - set(known))
    return tuple(modules[number] for number in sorted([*known, *others][:MAX_MODULES]))
