"""The kinds of a module's Module CRs, cached for each version of its ModuleTemplate."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from kube_runtime import JsonObject, KubernetesObject, ManifestInvalid, Resource, parse_aside, parse_manifest
from kyma_oci.references import content_digest
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_catalog.offer import data_refusal, link_of, link_pin_of
from lifecycle_manager.module_sources.downloads import DownloadFailed
from lifecycle_manager_api import ModulePolicySpec, ModuleTemplate, boolean, names, raw_object
from lifecycle_manager_api.known_kinds import kind_refusal
from lifecycle_manager_api.policy_objects import defined_by

MAX_TEMPLATES = 1000


class TemplateUnreadable(Exception):
    """The kinds of a template's Module CRs can't be read, or no module may have them; the message says why."""


class ModuleCrKind(NamedTuple):
    """A kind of Module CRs, and the namespace and name of the default one."""

    api_version: str
    kind: str
    default_namespace: str
    default_name: str

    @property
    def group(self) -> str:
        """The API group of the kind; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def default(self) -> ObjectReference:
        """The default Module CR."""
        return self.reference(self.default_namespace, self.default_name)

    def reference(self, namespace: str, name: str) -> ObjectReference:
        return ObjectReference(self.group, self.kind, namespace, name)


def default_kind(template: ModuleTemplate, default_namespace: str = names.SKR_NAMESPACE) -> ModuleCrKind | None:
    """Return the kind of the default Module CR in a template, None where it has none that a module may have."""
    data = raw_object(template.spec.data)
    if not data or not isinstance(data.get("apiVersion"), str) or not isinstance(data.get("kind"), str):
        return None
    if data_refusal(template) is not None:
        return None
    given = data.get("metadata")
    metadata = given if isinstance(given, dict) else {}
    cluster_scoped = boolean(template.metadata.annotations, names.IS_CLUSTER_SCOPED)
    namespace = "" if cluster_scoped else metadata.get("namespace") or default_namespace
    return ModuleCrKind(data["apiVersion"], data["kind"], namespace, metadata.get("name") or "default")


@dataclass(eq=False)
class ModuleKinds:
    """Finds the kinds of Module CRs of templates. `fetch` downloads the text of a link, and raises DownloadFailed.

    `namespace` is used for a default Module CR without one.
    """

    fetch: Callable[[str], Awaitable[str]]
    namespace: str = names.SKR_NAMESPACE
    _found: OrderedDict[str, tuple[ModuleCrKind, ...]] = field(default_factory=OrderedDict, init=False)
    _fetching: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    def known(self, template: ModuleTemplate) -> tuple[ModuleCrKind, ...]:
        """Return the kinds that are known without a download."""
        default = self.of_default(template)
        return (default,) if default is not None else self._found.get(link_pin_of(template), ())

    def of_default(self, template: ModuleTemplate) -> ModuleCrKind | None:
        return default_kind(template, self.namespace)

    async def of(self, template: ModuleTemplate) -> tuple[ModuleCrKind, ...]:
        """Return the kinds, downloading the template's resources where needed. Raises TemplateUnreadable."""
        link, digest = link_of(template), link_pin_of(template)
        if (why := data_refusal(template)) is not None:
            raise TemplateUnreadable(f"ModuleTemplate {template.metadata.name}: {why}")
        if self.of_default(template) is not None or link is None:
            return self.known(template)
        async with self._fetching.setdefault(link, asyncio.Lock()):
            if digest not in self._found:
                self._found[digest] = await self._read(template, link)
                while len(self._found) > MAX_TEMPLATES:
                    self._found.popitem(last=False)
        return self._found[digest]

    async def _read(self, template: ModuleTemplate, link: str) -> tuple[ModuleCrKind, ...]:
        try:
            text = await self.fetch(link)
            manifest = await parse_aside(len(text), parse_manifest, text)
            found = kinds_of_crds(manifest.objects, self.namespace)
        except (DownloadFailed, ManifestInvalid) as error:
            raise TemplateUnreadable(f"ModuleTemplate {template.metadata.name}: {error}") from error
        if (digest := content_digest(text.encode())) != link_pin_of(template):
            why = f"{link} is {digest}, which is not what status.pinnedLink says"
            raise TemplateUnreadable(f"ModuleTemplate {template.metadata.name}: {why}")
        return found


def kinds_of_crds(objects: Iterable[KubernetesObject], namespace: str) -> tuple[ModuleCrKind, ...]:
    """Return the kinds of the CRDs among some objects, each in its storage version, but for those of Kubernetes.

    `namespace` is that of the default Module CR of a namespaced kind.
    """
    return tuple(
        kind
        for each in objects
        if defined_by(each) is not None
        for kind in _kind_of_crd(each.document.get("spec"), namespace)
        if kind_refusal(kind.api_version, kind.kind) is None
    )


def _kind_of_crd(spec: Any, namespace: str) -> Iterable[ModuleCrKind]:
    if not isinstance(spec, Mapping) or not isinstance(spec.get("versions"), list):
        return
    stored = [each["name"] for each in spec["versions"] if isinstance(each, Mapping) and each.get("storage")]
    kind = spec["names"].get("kind") if isinstance(spec.get("names"), Mapping) else None
    if stored and kind and spec.get("group"):
        default_namespace = "" if spec.get("scope") == "Cluster" else namespace
        yield ModuleCrKind(f"{spec['group']}/{stored[0]}", str(kind), default_namespace, "default")


def is_named_by(policy: ModulePolicySpec | None, resource: Resource[JsonObject]) -> bool:
    """Tell whether a ModulePolicy names a kind as one of the module's Module CRs, whoever has its CRD."""
    kind = (resource.group, resource.kind)
    return policy is not None and any((each.group, each.kind) == kind for each in policy.module_cr_kinds)


def why_foreign(resource: Resource[JsonObject], *, module: str, owner: str = "") -> str:
    """Return why a kind is not that of the module's Module CRs: its CRD is the owner's, or nobody's."""
    crd = f"CustomResourceDefinition {resource.plural}.{resource.group}"
    found = f"is that of {owner}; use another kind" if owner else f"is not among the objects of {module}; add it"
    return f"{crd} {found}, or name {resource.kind} of {resource.group} in spec.moduleCrKinds of its ModulePolicy"
