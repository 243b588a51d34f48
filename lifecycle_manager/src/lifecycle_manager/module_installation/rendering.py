"""The objects of a module as they go into a cluster: read once for the fleet, with the images of this landscape.

What belongs to the Lifecycle Manager itself is none of a module's business. A module may name our namespace, as most do
that live there, or the one that all modules have in common; it is left out, so that it does not go with the module.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

from kube_runtime import InventoryEntry, KubernetesObject
from lifecycle_manager.module_installation.images import localized
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager.oci import ModuleObjects, SourceError
from lifecycle_manager_api import names

CRD_GROUP, CRD_KIND = "apiextensions.k8s.io", "CustomResourceDefinition"
MOST_OF_A_MODULE = 100
Kind = tuple[str, str]
"""The group and name of a kind."""


class ObjectsForbidden(SourceError):
    """A module names an object that is the Lifecycle Manager's own."""

    reason = "ObjectsForbidden"


@dataclass(frozen=True, slots=True)
class Rendering:
    """What goes into a cluster, and by what it is told from what went there before.

    `own_kinds` are the objects of kinds that are defined here too, which an API server can't know beforehand;
    `of_known_kinds` are the others.
    """

    fingerprint: str
    objects: tuple[KubernetesObject, ...] = field(repr=False)
    own_kinds: tuple[InventoryEntry, ...] = field(repr=False, default=())
    of_known_kinds: tuple[KubernetesObject, ...] = field(repr=False, default=())


@dataclass(eq=False)
class Renderings:
    """Renders each module once for all clusters that get it alike, and forgets it when its objects are forgotten.

    `namespace` is that of namespaced objects that name none.
    """

    namespace: str = names.SKR_NAMESPACE
    _known: WeakKeyDictionary[ModuleObjects, dict[tuple[str, ...], Rendering]] = field(
        default_factory=WeakKeyDictionary, init=False
    )

    def of(self, module: ModuleObjects, images: Iterable[str]) -> Rendering:
        """Return what goes into a cluster. Raises ObjectsForbidden."""
        wanted = tuple(images)
        of_module = self._known.setdefault(module, {})
        known = of_module.get(wanted)
        if known is None:
            known = rendered("|".join((module.digest, *wanted)), module.objects, wanted, self.namespace)
            if len(of_module) >= MOST_OF_A_MODULE:
                of_module.clear()
            of_module[wanted] = known
        return known


def rendered(fingerprint: str, objects: Iterable[KubernetesObject], images: Iterable[str], namespace: str) -> Rendering:
    """Return what goes into a cluster. Raises ObjectsForbidden."""
    wanted = [each for each in objects if not _is_common_namespace(each, namespace)]
    forbidden = [each for each in wanted if is_protected(each)]
    if forbidden:
        raise ObjectsForbidden(f"document {forbidden[0].index}: {forbidden[0]} is the Lifecycle Manager's own")
    own = dict(_kinds_defined_in(wanted))
    known = tuple(each for each in wanted if _kind_of(each) not in own)
    return Rendering(
        fingerprint, localized(wanted, images), tuple(_entries_of_own_kinds(wanted, own, namespace)), known
    )


def _is_common_namespace(thing: KubernetesObject, default_namespace: str) -> bool:
    common = {names.SKR_NAMESPACE, default_namespace}
    return (thing.api_version, thing.kind) == ("v1", "Namespace") and thing.name in common


def _entries_of_own_kinds(
    objects: Iterable[KubernetesObject], namespaced: Mapping[Kind, bool], default_namespace: str
) -> Iterator[InventoryEntry]:
    for each in objects:
        group, kind = _kind_of(each)
        if (group, kind) in namespaced:
            namespace = (each.namespace or default_namespace) if namespaced[group, kind] else ""
            yield InventoryEntry(group, each.api_version.rpartition("/")[2], kind, namespace, each.name)


def _kind_of(thing: KubernetesObject) -> Kind:
    return (thing.api_version.rpartition("/")[0], thing.kind)


def _kinds_defined_in(objects: Iterable[KubernetesObject]) -> Iterator[tuple[Kind, bool]]:
    for each in objects:
        spec: Any = each.document.get("spec")
        if each.kind == CRD_KIND and isinstance(spec, Mapping) and isinstance(spec.get("names"), Mapping):
            kind = (str(spec.get("group", "")), str(spec["names"].get("kind", "")))
            yield kind, spec.get("scope") == "Namespaced"
