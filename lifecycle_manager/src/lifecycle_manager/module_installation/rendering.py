"""The objects of a module as they are applied: rendered once for the fleet, with the images of this landscape.

A module may not have the Lifecycle Manager's own objects. It may name the namespace kyma-system, as most modules do, or
the one that all modules share; that Namespace is left out, so that it is not deleted with the module.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

from kube_runtime import InventoryEntry, KubernetesObject, once_each
from kyma_oci import SourceError
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.module_installation.images import localized
from lifecycle_manager.module_installation.pull_secrets import ImagePullSecret, with_data, with_pull_secret
from lifecycle_manager.module_sources.parsing import ModuleObjects
from lifecycle_manager.object_set.inventory import namespace_in
from lifecycle_manager.object_set.protected import is_protected
from lifecycle_manager_api import ManagerReference, names
from lifecycle_manager_api.policy_objects import scopes_in

MAX_RENDERINGS_OF_A_MODULE = 100
Kind = tuple[str, str]
"""The group and name of a kind."""


class ObjectsForbidden(SourceError):
    """A module names an object that is the Lifecycle Manager's own."""


@dataclass(frozen=True, slots=True)
class RenderedModule:
    """The objects for a cluster; the fingerprint identifies them. `warnings` are about the text of the module.

    `own_kinds` are the objects of kinds whose CRD is among the objects, which an API server can't know beforehand;
    `of_known_kinds` are the others.
    """

    fingerprint: str
    objects: tuple[KubernetesObject, ...] = field(repr=False)
    own_kinds: tuple[InventoryEntry, ...] = field(repr=False, default=())
    of_known_kinds: tuple[KubernetesObject, ...] = field(repr=False, default=())
    warnings: tuple[str, ...] = ()


@dataclass(eq=False)
class Renderings:
    """Renders each module once for all clusters that get the same objects, as long as its objects are kept.

    `namespace` is for namespaced objects that name none; `pull_secret` is the name of the image pull Secret.
    """

    namespace: str = names.SKR_NAMESPACE
    pull_secret: str = ""
    _known: WeakKeyDictionary[ModuleObjects, dict[str, RenderedModule]] = field(
        default_factory=WeakKeyDictionary, init=False
    )

    def of(
        self,
        module: ModuleObjects,
        images: Iterable[str] = (),
        *,
        manager: ManagerReference | None = None,
        data: Iterable[Secret] | None = None,
    ) -> RenderedModule:
        """Return the objects for a cluster; `manager` is what runs the module. Raises SourceError.

        `data` are the Secrets of KCP whose data the module may have, None for a module that gets none. The fingerprint
        identifies them by their versions.
        """
        pull_secret = ImagePullSecret(self.pull_secret, manager) if self.pull_secret else None
        images, data = tuple(images), None if data is None else tuple(data)
        versions = (f"{each.metadata.uid}/{each.metadata.resource_version}" for each in data or ())
        fingerprint = "|".join(filter(None, (module.digest, *images, str(pull_secret or ""), *versions)))
        of_module = self._known.setdefault(module, {})
        known = of_module.get(fingerprint)
        if known is None:
            known = self._rendered(fingerprint, module, images, pull_secret, data)
            if len(of_module) >= MAX_RENDERINGS_OF_A_MODULE:
                of_module.clear()
            of_module[fingerprint] = known
        return known

    def _rendered(
        self,
        fingerprint: str,
        module: ModuleObjects,
        images: Iterable[str],
        pull_secret: ImagePullSecret | None,
        data: Iterable[Secret] | None,
    ) -> RenderedModule:
        wanted, namespace = tuple(each for each in module.objects if not self._is_common(each)), self.namespace
        forbidden = [each for each in wanted if is_protected(each, self.pull_secret)]
        if forbidden:
            raise ObjectsForbidden(f"document {forbidden[0].index}: {forbidden[0]} is the Lifecycle Manager's own")
        own = scopes_in(wanted)
        wanted, warnings = once_each(wanted, namespace_in(own, namespace))
        known = tuple(each for each in wanted if _kind_of(each) not in own)
        filled = localized(wanted, images)
        if pull_secret is not None:
            filled = with_pull_secret(filled, pull_secret)
        if data is not None:
            filled = with_data(filled, data)
        own_kinds = tuple(_entries_of_own_kinds(wanted, own, namespace))
        return RenderedModule(fingerprint, filled, own_kinds, known, (*module.warnings, *warnings))

    def _is_common(self, thing: KubernetesObject) -> bool:
        common = {names.SKR_NAMESPACE, self.namespace}
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
