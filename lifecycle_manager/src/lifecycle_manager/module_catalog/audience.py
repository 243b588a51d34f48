"""Which Kymas may have a module, by their labels.

A module can be restricted to Kymas with the label `beta`, to those with the label `internal`, and to those that its
`kymaSelector` matches. ModuleTemplate and ModuleReleaseMeta may both restrict it; a Kyma has to satisfy both.

A Kyma that leaves the groups `beta` or `internal` keeps what it has of them. One that a `kymaSelector` no longer
matches is barred: the module is uninstalled, and its catalog entries are removed.
"""

from collections.abc import Mapping
from typing import NamedTuple

from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, boolean, names

Labels = Mapping[str, str]

BARRED = "ModuleNotForThisCluster"
"""The reason where a `kymaSelector` does not match."""


class Exclusion(NamedTuple):
    """Why a Kyma may not have a module: a reason, and the end of a sentence that starts with the module's name."""

    reason: str
    message: str


def excluded(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    """Return why a Kyma with these labels may not have a module; None where it may."""
    if is_excluded(labels, release):
        return Exclusion(BARRED, "is not released for this cluster")
    spec = release.spec if release is not None else None
    restricted = {
        label
        for label in (names.BETA, names.INTERNAL)
        for item in (template, release)
        if item is not None and boolean(item.metadata.labels, label)
    }
    is_beta = names.BETA in restricted or (spec is not None and spec.beta)
    is_internal = names.INTERNAL in restricted or (spec is not None and spec.internal)
    if is_beta and not boolean(labels, names.BETA):
        return Exclusion("ModuleBeta", f"is a beta module, and this cluster's Kyma has no label {names.BETA}=true")
    if is_internal and not boolean(labels, names.INTERNAL):
        return Exclusion("ModuleInternal", f"is internal, and this cluster's Kyma has no label {names.INTERNAL}=true")
    return None


def is_excluded(labels: Labels, release: ModuleReleaseMeta | None) -> bool:
    """Tell whether the `kymaSelector` of a module excludes a Kyma with these labels."""
    selector = release.spec.kyma_selector if release is not None else None
    return selector is not None and not selector.matches(labels)
