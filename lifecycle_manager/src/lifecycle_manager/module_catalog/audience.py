"""Which Kymas may have a module, by their labels.

A module can be restricted to Kymas with the label `beta`, to those with the label `internal`, and to those that its
`kymaSelector` matches. ModuleTemplate and ModuleReleaseMeta may both restrict it; a Kyma has to satisfy both.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, names

Labels = Mapping[str, str]


class Exclusion(NamedTuple):
    """Why a Kyma may not have a module: a reason, and the end of a sentence that starts with the module's name."""

    reason: str
    message: str


def excluded(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    """Return why a Kyma with these labels may not have a module; None where it may."""
    spec = release.spec if release is not None else None
    restricted = {
        label
        for label in (names.BETA, names.INTERNAL)
        for item in (template, release)
        if item is not None and item.metadata.labels.get(label) == "true"
    }
    is_beta = names.BETA in restricted or (spec is not None and spec.beta)
    is_internal = names.INTERNAL in restricted or (spec is not None and spec.internal)
    if is_beta and labels.get(names.BETA) != "true":
        return Exclusion("ModuleBeta", f"is a beta module, and this cluster's Kyma has no label {names.BETA}=true")
    if is_internal and labels.get(names.INTERNAL) != "true":
        return Exclusion("ModuleInternal", f"is internal, and this cluster's Kyma has no label {names.INTERNAL}=true")
    if spec is not None and spec.kyma_selector is not None and not spec.kyma_selector.matches(labels):
        return Exclusion("ModuleNotForThisCluster", "is not released for this cluster")
    return None
