"""The condition `MandatoryModules` of a Kyma, and the reasons of mandatory modules."""

from collections.abc import Iterable

from lifecycle_manager.contract.conditions import DELETION_HELD, MANDATORY_MODULES, ConditionContent
from lifecycle_manager.skr.removals import removal_waits_for
from lifecycle_manager_api import Kyma, find

CANNOT_BE_INSTALLED = "CannotBeInstalled"
DECIDED = ConditionContent("True", "ManifestsWritten", "the Manifests of mandatory modules are written")


def status_of(kyma: Kyma, held: Iterable[str]) -> ConditionContent | None:
    """Return the condition of a Kyma whose Manifests are written; None where none was reported before."""
    if modules := ", ".join(sorted(held)):
        waits_for = removal_waits_for(kyma.metadata.name)
        message = f"not mandatory any more, or not restored yet: {modules}; the removal waits for {waits_for}"
        return ConditionContent("False", DELETION_HELD, message)
    known = find(kyma.status.conditions, MANDATORY_MODULES)
    return DECIDED if known is not None and known.status == "False" else None
