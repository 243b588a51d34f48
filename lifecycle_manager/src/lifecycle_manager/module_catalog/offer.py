"""The modules that the control plane offers, indexed by module, version and channel.

A ModuleReleaseMeta lists the version of each channel of a module; the ModuleTemplate of a version is named
`<module>-<version>`. A module without a ModuleReleaseMeta is offered by the deprecated channel of its templates.
"""

from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, TypeVar

import msgspec

from kyma_oci import (
    Component,
    DescriptorNotFound,
    DescriptorUnreadable,
    DescriptorUnverified,
    component_of,
)
from kyma_oci.descriptor import RAW_MANIFEST
from lifecycle_manager.module_catalog.identity import component_in, disagreement, module_of, names_of, version_of
from lifecycle_manager_api import (
    InvalidVersion,
    KymaSelector,
    ModuleReleaseMeta,
    ModuleTemplate,
    Version,
    boolean,
    names,
    raw_object,
    template_name,
)
from lifecycle_manager_api.known_kinds import kind_refusal

RAW_MANIFEST_LINK = "rawManifest"
NO_CHANNEL = "none"
"""The channel of older templates that are in no channel."""

_NO_VERSION = Version(0, 0, 0)
Release = TypeVar("Release", bound=ModuleReleaseMeta)


def link_of(template: ModuleTemplate) -> str | None:
    """Return the link to the objects of a template; None where it has none."""
    return next((each.link for each in template.spec.resources if each.name == RAW_MANIFEST_LINK), None)


def data_refusal(template: ModuleTemplate) -> str | None:
    """Return why no module may have the default Module CR of a template; None where it may, or there is none."""
    return _refusal_of(bytes(template.spec.data))


def link_pin_of(template: ModuleTemplate) -> str:
    """Return the digest that is recorded for the link of a template in this version; "" where there is none."""
    pin = template.status.pinned_link
    return pin.digest if pin is not None and (pin.url, pin.version) == (link_of(template), version_of(template)) else ""


def is_mandatory(template: ModuleTemplate) -> bool:
    """Tell whether a template is marked as mandatory by itself, without its ModuleReleaseMeta."""
    return template.spec.mandatory or boolean(template.metadata.labels, names.MANDATORY_MODULE)


def claim_of(release: ModuleReleaseMeta) -> tuple[bool, str]:
    """Return the sort key for ModuleReleaseMetas of one module: the one named after the module comes first."""
    return release.metadata.name != release.spec.module_name, release.metadata.name


def release_of(module: str, releases: Iterable[Release]) -> Release | None:
    """Return the ModuleReleaseMeta of a module that counts; None where it has none."""
    present = (each for each in releases if each.spec.module_name == module and not each.metadata.being_deleted)
    return min(present, key=claim_of, default=None)


class Disagreement(NamedTuple):
    """A template that contradicts itself, and where."""

    template: ModuleTemplate
    why: str


@dataclass(frozen=True, slots=True)
class Offer:
    """One state of the catalog. Objects that are being deleted are not offered.

    - `awaited`: modules that are mandatory in a version without a template, not even one that is being deleted: what is
      installed of them stays
    - `modules`: the names of all modules
    - `descriptors`: the descriptors that were looked up, by the name of the template. They are not put into the
      templates: the catalog in the SKRs has those as they were written.
    - `verified`: the components that are signed, of modules that have to be signed, by the name of the template
    - `disagreeing`: templates that contradict themselves about their module or version, by name; they are in no other
      index
    - `problems`: why a descriptor was not found, by the name of the template
    - `unverified`: why nobody may install a template whose module has to be signed, by the name of the template
    - `unreleased`: restricted modules without a ModuleReleaseMeta, which nobody may choose
    - `namespace`: of default Module CRs that name none
    """

    templates: Mapping[str, ModuleTemplate]
    by_channel: Mapping[tuple[str, str], ModuleTemplate]
    releases: Mapping[str, ModuleReleaseMeta]
    mandatory: Mapping[str, ModuleTemplate]
    awaited: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    descriptors: Mapping[str, msgspec.Raw] = field(default_factory=dict)
    verified: Mapping[str, Component] = field(default_factory=dict)
    disagreeing: Mapping[str, Disagreement] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)
    unverified: Mapping[str, str] = field(default_factory=dict)
    unreleased: frozenset[str] = frozenset()
    namespace: str = names.SKR_NAMESPACE

    @classmethod
    def of(
        cls,
        templates: Iterable[ModuleTemplate],
        releases: Iterable[ModuleReleaseMeta],
        descriptors: Mapping[str, msgspec.Raw] | None = None,
        problems: Mapping[str, str] | None = None,
        *,
        verified: Mapping[str, Component] | None = None,
        unverified: Mapping[str, str] | None = None,
        restricted: Collection[str] = (),
        namespace: str = names.SKR_NAMESPACE,
    ) -> "Offer":
        """Index a catalog.

        A `restricted` module is for the Kymas that its `kymaSelector` matches, and for none where it has no selector.

        Of several templates with one module and channel, the first by name counts; of several ModuleReleaseMetas of one
        module, the one named after the module, or else the first by name.
        """
        everything = sorted(templates, key=lambda template: template.metadata.name, reverse=True)
        released = {
            release.spec.module_name: _selecting(release) if release.spec.module_name in restricted else release
            for release in sorted(releases, key=claim_of, reverse=True)
            if not release.metadata.being_deleted
        }
        unreleased = {*restricted} - released.keys()
        descriptors, verified = descriptors or {}, verified or {}

        def contradiction(template: ModuleTemplate) -> str:
            name, release = template.metadata.name, released.get(module_of(template))
            if (signed := verified.get(name)) is not None:
                return disagreement(template, signed, release, is_signed=True)
            return disagreement(template, component_in(template, descriptors.get(name)), release)

        disagreeing = {
            each.metadata.name: Disagreement(each, why)
            for each in everything
            if not each.metadata.being_deleted and (why := contradiction(each))
        }
        existing = {each.metadata.name for each in everything} - disagreeing.keys()
        offered = [each for each in everything if each.metadata.name in existing and not each.metadata.being_deleted]
        by_name = {template.metadata.name: template for template in offered}
        return cls(
            templates=by_name,
            by_channel={
                (module_of(template), template.spec.channel): template
                for template in offered
                if module_of(template) not in {"", *unreleased} and template.spec.channel not in {"", NO_CHANNEL}
            },
            releases=released,
            mandatory=_mandatory(by_name, released),
            modules=frozenset({*map(module_of, offered), *released}),
            awaited=frozenset(
                module
                for module, release in released.items()
                if (mandatory := release.spec.mandatory) is not None
                and template_name(module, mandatory.version) not in existing
            ),
            descriptors=descriptors,
            verified=verified,
            disagreeing=disagreeing,
            problems=problems or {},
            unverified=unverified or {},
            unreleased=frozenset(unreleased),
            namespace=namespace,
        )

    def is_in_a_channel(self, template: ModuleTemplate) -> bool:
        """Tell whether a channel names the version of a template; one without a release needs none."""
        release = self.releases.get(module_of(template))
        return release is None or version_of(template) in {each.version for each in release.spec.channels}

    def default_cr(self, template: ModuleTemplate) -> msgspec.Raw:
        """Return the default Module CR of a template with the namespace that it gets; null where there is none."""
        return _placed(bytes(template.spec.data), self.namespace)

    def version_in(self, module: str, channel: str) -> str:
        """Return the version that a module is released as in a channel; empty where there is none."""
        channels = self.releases[module].spec.channels if module in self.releases else ()
        return next((each.version for each in channels if each.channel == channel), "")

    def named(self, module: str, version: str) -> ModuleTemplate | None:
        """Return the template that is named after a version of a module, as a ModuleReleaseMeta refers to it."""
        return _named(self.templates, module, version)

    def template(self, module: str, version: str) -> ModuleTemplate | None:
        by_channel = (
            each for (name, _), each in self.by_channel.items() if name == module and version_of(each) == version
        )
        return self.named(module, version) or next(by_channel, None)

    def absence(self, module: str, version: str) -> str:
        """Return why there is no template of a version, to be read after its name."""
        found = self.disagreeing.get(template_name(module, version))
        return "does not exist" if found is None else f"is not offered: {found.why}"

    @property
    def kept(self) -> Mapping[str, Disagreement]:
        """Return the modules that a template would make mandatory if it did not contradict itself.

        What is installed of them stays.
        """
        found = [each for each in self.disagreeing.values() if is_mandatory(each.template)]
        by_module = {module: each for each in found for module in names_of(each.template)}
        return {name: each for name, each in by_module.items() if name not in {*self.mandatory, *self.awaited}}

    @property
    def required(self) -> frozenset[str]:
        """Return the modules that are installed everywhere, or stay there."""
        return frozenset({*self.mandatory, *self.awaited, *self.kept})

    def installed(self, module: str, version: str) -> ModuleTemplate | None:
        """Return the template that a Manifest of a module's version was built from, also one named after a channel."""
        by_content = (each for each in self.templates.values() if self._installs(each, module, version))
        return self.template(module, version) or next(by_content, None)

    def _installs(self, template: ModuleTemplate, module: str, version: str) -> bool:
        if module_of(template) != module:
            return False
        try:
            return (version_of(template) or self.component(template).version) == version
        except DescriptorUnreadable:
            return False

    def reads_link(self, template: ModuleTemplate) -> bool:
        """Tell whether the objects of a template, or the kinds of its Module CRs, are read from its link."""
        if link_of(template) is None:
            return False
        if template.spec.enable_module_config and raw_object(template.spec.data) is None:
            return True
        with suppress(DescriptorUnreadable):
            return RAW_MANIFEST not in self._component(template).layers
        return False

    def component(self, template: ModuleTemplate) -> Component:
        """Return the component that a template installs. Raises DescriptorUnreadable."""
        component = self._component(template)
        link = link_of(template) if RAW_MANIFEST not in component.layers else None
        if link is not None and not link_pin_of(template):
            raise DescriptorNotFound(f"{link} was not read yet, see the conditions of the ModuleTemplate")
        return component

    def _component(self, template: ModuleTemplate) -> Component:
        name = template.metadata.name
        if name in self.problems:
            raise DescriptorNotFound(self.problems[name])
        if name in self.unverified:
            raise DescriptorUnverified(self.unverified[name])
        if (why := data_refusal(template)) is not None:
            raise DescriptorUnreadable(why)
        return self.verified.get(name) or component_of(self.descriptors.get(name, template.spec.descriptor))

    def can_be_chosen(self, template: ModuleTemplate) -> bool:
        """Tell whether users may choose a template: its module must not be mandatory in any version.

        A mandatory version and a chosen version of one module would replace each other's Manifest for ever.
        """
        module = module_of(template)
        if module in self.unreleased:
            return False
        release = self.releases.get(module)
        released_as_mandatory = release is not None and release.spec.mandatory is not None
        return not (is_mandatory(template) or module in self.mandatory or released_as_mandatory)


@lru_cache(maxsize=1024)
def _refusal_of(data: bytes) -> str | None:
    found = msgspec.json.decode(data)
    api_version, kind = (found.get("apiVersion"), found.get("kind")) if isinstance(found, dict) else (None, None)
    if not isinstance(api_version, str) or not isinstance(kind, str):
        return None
    why = kind_refusal(api_version, kind)
    return f"spec.data: {why}, and cannot be that of a Module CR" if why is not None else None


@lru_cache(maxsize=1024)
def _placed(data: bytes, namespace: str) -> msgspec.Raw:
    found = msgspec.json.decode(data)
    if not isinstance(found, dict):
        return msgspec.Raw(data)
    metadata = found.get("metadata")
    given = metadata if isinstance(metadata, dict) else {}
    placed = {**given, "namespace": given.get("namespace") or namespace}
    return msgspec.Raw(msgspec.json.encode({**found, "metadata": placed}))


def _named(templates: Mapping[str, ModuleTemplate], module: str, version: str) -> ModuleTemplate | None:
    found = templates.get(template_name(module, version))
    return found if found is not None and (module_of(found), version_of(found)) == (module, version) else None


def _selecting(release: ModuleReleaseMeta) -> ModuleReleaseMeta:
    if release.spec.kyma_selector is not None or release.spec.mandatory is not None:
        return release
    return msgspec.structs.replace(release, spec=msgspec.structs.replace(release.spec, kyma_selector=KymaSelector()))


def _mandatory(
    templates: Mapping[str, ModuleTemplate], releases: Mapping[str, ModuleReleaseMeta]
) -> dict[str, ModuleTemplate]:
    """Return the template of each mandatory module: the version in its ModuleReleaseMeta, else the highest."""
    chosen: dict[str, ModuleTemplate] = {}
    for template in templates.values():
        module = module_of(template)
        if not module or module in releases or not is_mandatory(template):
            continue
        if module not in chosen or _precedence(template) > _precedence(chosen[module]):
            chosen[module] = template
    for module, release in releases.items():
        version = release.spec.mandatory.version if release.spec.mandatory is not None else ""
        if version and (released := _named(templates, module, version)) is not None:
            chosen[module] = released
    return chosen


def _precedence(template: ModuleTemplate) -> tuple[Version, str]:
    """Return the sort key for templates of one module: by version, then by name."""
    try:
        version = Version.parse(version_of(template))
    except InvalidVersion:
        version = _NO_VERSION
    return version, template.metadata.name
