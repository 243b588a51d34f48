"""Who may have a module: rules on the labels of a Kyma, each named by what it finds.

A module can be kept for clusters that test what is not finished (`beta`), for a company's own clusters (`internal`), or
for those that a selector picks. A template and its ModuleReleaseMeta may both say so, and both have to agree.
"""

from collections.abc import Callable, Mapping
from typing import NamedTuple

from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, names

Labels = Mapping[str, str]


class Exclusion(NamedTuple):
    """Why a cluster may not have a module: one word, and the end of a sentence that begins with the module."""

    reason: str
    message: str


def excluded(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    """Return why a Kyma with these labels may not have a module, None where it may."""
    return next((found for check in _CHECKS if (found := check(labels, template, release)) is not None), None)


def _beta(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    flagged = _labelled(template, names.BETA) or _labelled(release, names.BETA)
    if not flagged and not (release is not None and release.spec.beta):
        return None
    if labels.get(names.BETA) == "true":
        return None
    return Exclusion("ModuleBeta", f"is a beta module, and this cluster's Kyma has no label {names.BETA}=true")


def _internal(labels: Labels, template: ModuleTemplate | None, release: ModuleReleaseMeta | None) -> Exclusion | None:
    flagged = _labelled(template, names.INTERNAL) or _labelled(release, names.INTERNAL)
    if not flagged and not (release is not None and release.spec.internal):
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


def _labelled(thing: ModuleTemplate | ModuleReleaseMeta | None, label: str) -> bool:
    return thing is not None and thing.metadata.labels.get(label) == "true"


_CHECKS: tuple[Callable[[Labels, ModuleTemplate | None, ModuleReleaseMeta | None], Exclusion | None], ...] = (
    _beta,
    _internal,
    _not_selected,
)
