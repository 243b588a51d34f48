"""Which removals of modules by a change of the catalog wait, before anything is deleted even in KCP.

A change that removes a module from more clusters than `max_changed` waits in each until an operator continues it;
versions that so many clusters would get are rolled out in waves (`rollout.target`).
"""

import re
from collections.abc import Iterable
from datetime import datetime, timedelta

from lifecycle_manager.contract.conditions import MANDATORY_MODULES
from lifecycle_manager.skr.brake import AT_ONCE_SECONDS, continued_at, is_continued
from lifecycle_manager_api import Kyma, ObjectMeta, find

FREE_CLUSTERS = 10
"""So many clusters change at once in any fleet, unless the option is a number."""


def max_changed(amount: str, clusters: int) -> int:
    """Return how many of so many clusters one change may concern; a share below FREE_CLUSTERS is that."""
    if not amount.endswith("%"):
        return int(amount)
    return max(FREE_CLUSTERS, clusters * int(amount[:-1]) // 100)


def waiting_since(module: str, changed_at: datetime | None, kymas: Iterable[Kyma], limit: int) -> datetime | None:
    """Return since when the removal of a module from these Kymas waits; None where it does not."""
    present = (each for each in kymas if not each.metadata.being_deleted)
    waiting = [each for each in present if is_removal_held(changed_at, each.metadata)]
    return changed_at if len(waiting) > limit or any(_says_so(each, module) for each in waiting) else None


def _says_so(kyma: Kyma, module: str) -> bool:
    """Tell whether a status says of this very module that its removal waits; of mandatory ones a condition does."""
    messages = [each.message for each in kyma.status.modules if each.name == module]
    mandatory = find(kyma.status.conditions, MANDATORY_MODULES)
    if mandatory is not None and module in re.split("[:,;] ", mandatory.message):
        messages.append(mandatory.message)
    return any(removal_waits_for(kyma.metadata.name) in each for each in messages)


def is_removal_held(since: datetime | None, kyma: ObjectMeta) -> bool:
    """Tell whether a removal that waits since then has to wait for this Kyma."""
    return since is not None and not is_continued(since, continued_at(kyma))


def continued_removal(since: datetime | None, kyma: ObjectMeta, now: datetime) -> datetime | None:
    """Return since when the removal of a module waited that an operator has just continued; None for any other."""
    until = continued_at(kyma)
    is_recent = until is not None and now - until < timedelta(seconds=AT_ONCE_SECONDS)
    return since if is_recent and is_continued(since, until) else None


def removal_waits_for(kyma: str) -> str:
    """Return what a removal waits for."""
    return f"an operator's word: klm continue {kyma} (one change removes the module from very many clusters)"
