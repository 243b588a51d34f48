"""Which Kymas may have a module, by their labels. Each check is named by what it finds.

A module can be restricted to Kymas with the label `beta`, to those with the label `internal`, and to those that its
`kymaSelector` matches. ModuleTemplate and ModuleReleaseMeta may both restrict it; a Kyma has to satisfy both.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, names

Labels = Mapping[str, str]


class Exclusion(NamedTuple):
    """Why a Kyma may not have a module: a reason, and the end of a sentence that starts with the module's name."""

    reason: str
    message: str


def excluded(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    """Return why a Kyma with these labels may not have a module; None where it may."""
    return next((found for check in _CHECKS if (found := check(labels, template, release)) is not None), None)


def _beta(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    restricted = _has_label(template, names.BETA) or _has_label(release, names.BETA)
    if not restricted and not (release is not None and release.spec.beta):
        return None
    if labels.get(names.BETA) == "true":
        return None
    return Exclusion("ModuleBeta", f"is a beta module, and this cluster's Kyma has no label {names.BETA}=true")


def _internal(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    restricted = _has_label(template, names.INTERNAL) or _has_label(release, names.INTERNAL)
    if not restricted and not (release is not None and release.spec.internal):
        return None
    if labels.get(names.INTERNAL) == "true":
        return None
    return Exclusion("ModuleInternal", f"is internal, and this cluster's Kyma has no label {names.INTERNAL}=true")


def _not_selected(
    labels: Labels, _template: ModuleTemplate | None, release: ModuleReleaseMeta | None
) -> Exclusion | None:
    selector = release.spec.kyma_selector if release is not None else None
    if selector is None or selector.matches(labels):
        return None
    return Exclusion("ModuleNotForThisCluster", "is not released for this cluster")


def _has_label(item: ModuleTemplate | ModuleReleaseMeta | None, label: str) -> bool:
    return item is not None and item.metadata.labels.get(label) == "true"


_CHECKS: tuple[Callable[[Labels, ModuleTemplate | None, ModuleReleaseMeta | None], Exclusion | None], ...] = (
    _beta,
    _internal,
    _not_selected,
)
