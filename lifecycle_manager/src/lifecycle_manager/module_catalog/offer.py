"""All modules that the control plane offers, by what they are asked for.

A ModuleReleaseMeta says which version each channel of a module has; the ModuleTemplate of a version is named
`<module>-<version>`. A module without a ModuleReleaseMeta is offered by the deprecated channel on its templates.
"""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from kube_runtime import Informer
from lifecycle_manager.module_catalog.descriptor import (
    Component,
    DescriptorNotFound,
    DescriptorUnreadable,
    component_of,
    is_left_out,
)
from lifecycle_manager.resources import DatedReleaseMeta
from lifecycle_manager_api import (
    InvalidVersion,
    ModuleReleaseMeta,
    ModuleTemplate,
    Version,
    names,
    split_template_name,
    template_name,
)

NO_CHANNEL = "none"
"""What older templates say that are in no channel at all."""

_NO_VERSION = Version(0, 0, 0)


def module_of(template: ModuleTemplate) -> str:
    """Return the name of the module that a template belongs to; older ones have it in a label only."""
    return template.spec.module_name or template.metadata.labels.get(names.MODULE_NAME, "")


def version_of(template: ModuleTemplate) -> str:
    """Return the version that a template holds, empty where it names none.

    Older ones have it in their name only, and those that are named after a channel in their descriptor.
    """
    if template.spec.version:
        return template.spec.version
    named = split_template_name(template.metadata.name)
    if named is not None:
        return str(named[1])
    try:
        return "" if is_left_out(template.spec.descriptor) else component_of(template.spec.descriptor).version
    except DescriptorUnreadable:
        return ""


def is_mandatory(template: ModuleTemplate) -> bool:
    """Tell whether a template by itself says that every cluster gets it."""
    return template.spec.mandatory or template.metadata.labels.get(names.MANDATORY_MODULE) == "true"


def claim_of(release: ModuleReleaseMeta) -> tuple[bool, str]:
    """Return what ModuleReleaseMetas of a module are ordered by: the one that is named after it comes first."""
    return release.metadata.name != release.spec.module_name, release.metadata.name


@dataclass(frozen=True, slots=True)
class Offer:
    """One state of the catalog. What is being deleted is no longer offered.

    `awaited` names the modules that are mandatory in a version of which there is no template (yet): what is installed
    of them stays. `modules` names all that there are.

    `descriptors` are those that templates leave out, by the names of the templates: clusters are shown the templates as
    they were written, whatever was found out since. `problems` says why one could not be found.
    """

    templates: Mapping[str, ModuleTemplate]
    by_channel: Mapping[tuple[str, str], ModuleTemplate]
    releases: Mapping[str, ModuleReleaseMeta]
    mandatory: Mapping[str, ModuleTemplate]
    awaited: frozenset[str] = frozenset()
    modules: frozenset[str] = frozenset()
    descriptors: Mapping[str, msgspec.Raw] = field(default_factory=dict)
    problems: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        templates: Iterable[ModuleTemplate],
        releases: Iterable[ModuleReleaseMeta],
        descriptors: Mapping[str, msgspec.Raw] | None = None,
        problems: Mapping[str, str] | None = None,
    ) -> "Offer":
        """Index a catalog.

        Where several templates claim a module's channel, the first by name counts; where several ModuleReleaseMetas
        claim a module, the one that is named after it, or else the first by name.
        """
        everything = sorted(templates, key=lambda template: template.metadata.name, reverse=True)
        offered = [each for each in everything if not each.metadata.being_deleted]
        by_name = {template.metadata.name: template for template in offered}
        released = {
            release.spec.module_name: release
            for release in sorted(releases, key=claim_of, reverse=True)
            if not release.metadata.being_deleted
        }
        return cls(
            templates=by_name,
            by_channel={
                (module_of(template), template.spec.channel): template
                for template in offered
                if module_of(template) and template.spec.channel not in {"", NO_CHANNEL}
            },
            releases=released,
            mandatory=_mandatory(by_name, released),
            modules=frozenset({*map(module_of, offered), *released}),
            awaited=frozenset(_awaited({template.metadata.name for template in everything}, released)),
            descriptors=descriptors or {},
            problems=problems or {},
        )

    def template(self, module: str, version: str) -> ModuleTemplate | None:
        """Return the template of a module's version."""
        named = self.templates.get(template_name(module, version))
        if named is not None:
            return named
        by_channel = (template for (name, _), template in self.by_channel.items() if name == module)
        return next((template for template in by_channel if version_of(template) == version), None)

    def installed(self, module: str, version: str) -> ModuleTemplate | None:
        """Return the template that a Manifest of a module's version was made of, wherever that says its version."""
        found = self.template(module, version)
        if found is not None:
            return found
        return next((each for each in self.templates.values() if self._installs(each, module, version)), None)

    def _installs(self, template: ModuleTemplate, module: str, version: str) -> bool:
        if module_of(template) != module:
            return False
        try:
            return (version_of(template) or self.component(template).version) == version
        except DescriptorUnreadable:
            return False

    def component(self, template: ModuleTemplate) -> Component:
        """Return the component that a template installs. Raises DescriptorUnreadable."""
        name = template.metadata.name
        if name in self.problems:
            raise DescriptorNotFound(self.problems[name])
        return component_of(self.descriptors.get(name, template.spec.descriptor))

    def can_be_chosen(self, template: ModuleTemplate) -> bool:
        """Tell whether a template is somebody's to choose: nothing says that its module is mandatory.

        It is the module that counts: in two versions, one that everybody has and one that users chose, each would
        replace the other for ever.
        """
        module = module_of(template)
        release = self.releases.get(module)
        if is_mandatory(template) or module in self.mandatory:
            return False
        return release is None or release.spec.mandatory is None


class Descriptors(Protocol):
    """Knows the descriptors that templates leave out; `changes` is another number whenever it knows more."""

    changes: int

    def found(self, template: ModuleTemplate) -> msgspec.Raw | None:
        """Return the descriptor that a template leaves out; None where it has one, or it is not known."""

    def problem(self, template: ModuleTemplate) -> str | None:
        """Return why a template has no descriptor; None where it has one."""


@dataclass(eq=False)
class Offers:
    """The offer as the caches have it now, indexed once for each of their states."""

    templates: Informer[ModuleTemplate]
    releases: Informer[DatedReleaseMeta]
    descriptors: Descriptors | None = None
    _known: tuple[tuple[int, int, int], Offer] | None = field(default=None, init=False)

    def current(self) -> Offer:
        """Return the offer."""
        looked_up = self.descriptors.changes if self.descriptors is not None else 0
        state = (self.templates.cache.changes, self.releases.cache.changes, looked_up)
        if self._known is None or self._known[0] != state:
            self._known = (state, self._index())
        return self._known[1]

    def _index(self) -> Offer:
        templates, releases, known = self.templates.cache.list(), self.releases.cache.list(), self.descriptors
        if known is None:
            return Offer.of(templates, releases)
        found = {each.metadata.name: text for each in templates if (text := known.found(each)) is not None}
        problems = {each.metadata.name: why for each in templates if (why := known.problem(each)) is not None}
        return Offer.of(templates, releases, found, problems)


def _mandatory(
    templates: Mapping[str, ModuleTemplate], releases: Mapping[str, ModuleReleaseMeta]
) -> dict[str, ModuleTemplate]:
    """Return the template of each mandatory module: what its ModuleReleaseMeta says, else the highest version."""
    chosen: dict[str, ModuleTemplate] = {}
    for template in templates.values():
        module = module_of(template)
        if not module or module in releases or not is_mandatory(template):
            continue
        if module not in chosen or _precedence(template) > _precedence(chosen[module]):
            chosen[module] = template
    for module, release in releases.items():
        if release.spec.mandatory is not None:
            named = templates.get(template_name(module, release.spec.mandatory.version))
            if named is not None:
                chosen[module] = named
    return chosen


def _awaited(template_names: Container[str], releases: Mapping[str, ModuleReleaseMeta]) -> Iterable[str]:
    """Give the mandatory modules whose version has no template, not even one that is just being deleted."""
    for module, release in releases.items():
        mandatory = release.spec.mandatory
        if mandatory is not None and template_name(module, mandatory.version) not in template_names:
            yield module


def _precedence(template: ModuleTemplate) -> tuple[Version, str]:
    """Return what templates of a module are ordered by; the name decides between equal versions."""
    try:
        version = Version.parse(version_of(template))
    except InvalidVersion:
        version = _NO_VERSION
    return version, template.metadata.name
