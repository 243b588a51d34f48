"""Which ModuleTemplate a module of a Kyma stands for: a pure function of what users ask and the catalog holds.

A channel named on the module goes before the Kyma's own. A ModuleReleaseMeta maps the channel to a version, and the
template is named `<module>-<version>`. Where a module has no ModuleReleaseMeta, the deprecated channel on the
template itself decides.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from lifecycle_manager_api import KymaModule, KymaSpec, ModuleReleaseMeta, ModuleTemplate


@dataclass(frozen=True, slots=True)
class Catalog:
    """The modules that KCP offers, by the names that resolution asks for."""

    templates: Mapping[str, ModuleTemplate]
    by_channel: Mapping[tuple[str, str], ModuleTemplate]
    releases: Mapping[str, ModuleReleaseMeta]

    @classmethod
    def of(cls, templates: Iterable[ModuleTemplate], releases: Iterable[ModuleReleaseMeta]) -> "Catalog":
        """Index a catalog. Where several templates claim a module's channel, the first by name counts."""
        ordered = sorted(templates, key=lambda template: template.metadata.name, reverse=True)
        return cls(
            templates={template.metadata.name: template for template in ordered},
            by_channel={
                (template.spec.module_name, template.spec.channel): template
                for template in ordered
                if template.spec.module_name and template.spec.channel
            },
            releases={release.spec.module_name: release for release in releases},
        )


@dataclass(frozen=True, slots=True)
class Resolution:
    """What one entry of `spec.modules` stands for: a template, or the reason why there is none."""

    module: KymaModule
    channel: str
    version: str = ""
    template: ModuleTemplate | None = None
    reason: str = ""
    message: str = ""


def resolve(spec: KymaSpec, catalog: Catalog) -> tuple[Resolution, ...]:
    """Resolve every module that a Kyma asks for, in the order in which it asks."""
    return tuple(_resolve_module(module, module.channel or spec.channel, catalog) for module in spec.modules)


def _resolve_module(module: KymaModule, channel: str, catalog: Catalog) -> Resolution:
    release = catalog.releases.get(module.name)
    if release is None:
        return _resolve_by_template_channel(module, channel, catalog)
    if release.spec.mandatory is not None:
        return _unresolved(
            module, channel, "ModuleMandatory", "is mandatory: it is installed everywhere and can't be chosen"
        )
    version = next((entry.version for entry in release.spec.channels if entry.channel == channel), None)
    if version is None:
        offered = ", ".join(sorted(entry.channel for entry in release.spec.channels)) or "none"
        return _unresolved(
            module, channel, "ChannelNotFound", f"has no channel {channel!r}; its channels are: {offered}"
        )
    template = catalog.templates.get(f"{module.name}-{version}")
    if template is None:
        return _unresolved(
            module,
            channel,
            "ModuleTemplateNotFound",
            f"is released as {version} in channel {channel!r}, but ModuleTemplate {module.name}-{version} "
            "does not exist",
        )
    return _resolved(module, channel, template, version)


def _resolve_by_template_channel(module: KymaModule, channel: str, catalog: Catalog) -> Resolution:
    template = catalog.by_channel.get((module.name, channel))
    if template is None:
        return _unresolved(
            module,
            channel,
            "ModuleNotFound",
            f"is not in the catalog for channel {channel!r}; check its name",
        )
    return _resolved(module, channel, template, template.spec.version or "")


def _resolved(module: KymaModule, channel: str, template: ModuleTemplate, version: str) -> Resolution:
    if template.spec.mandatory:
        return _unresolved(
            module, channel, "ModuleMandatory", "is mandatory: it is installed everywhere and can't be chosen"
        )
    return Resolution(module=module, channel=channel, version=version, template=template)


def _unresolved(module: KymaModule, channel: str, reason: str, what: str) -> Resolution:
    return Resolution(module=module, channel=channel, reason=reason, message=f"module {module.name!r} {what}")
