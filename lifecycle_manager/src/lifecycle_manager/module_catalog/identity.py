"""Which version of which module a ModuleTemplate is: its name, its label, its spec and its component have to agree.

A ModulePolicy, a channel and a Kyma find a template by one of them each. Were they to differ, a template would be
verified as one module and installed as another, or one version as a higher one. What differs is offered to nobody.
What a template leaves out is said by the others: older ones have the module in their label, and the version in their
name or, where they are named after a channel, in their descriptor.
"""

from collections.abc import Iterator
from itertools import chain

import msgspec

from kyma_oci import Component, DescriptorUnreadable, component_of, is_left_out
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate, names, split_template_name


def module_of(template: ModuleTemplate) -> str:
    """Return the module of a template; older templates have it in a label, or in their name only."""
    stated = template.spec.module_name or template.metadata.labels.get(names.MODULE_NAME, "")
    if stated or (parts := split_template_name(template.metadata.name)) is None:
        return stated
    return parts[0]


def version_of(template: ModuleTemplate) -> str:
    """Return the version of a template, empty where it has none.

    Older templates have it in their name only, and templates named after a channel in their descriptor.
    """
    if template.spec.version:
        return template.spec.version
    parts = split_template_name(template.metadata.name)
    if parts is not None:
        return str(parts[1])
    component = component_in(template)
    return component.version if component is not None else ""


def names_of(template: ModuleTemplate) -> frozenset[str]:
    """Return the modules that a template says it is of; more than one where it contradicts itself."""
    parts = split_template_name(template.metadata.name)
    stated = {template.spec.module_name, template.metadata.labels.get(names.MODULE_NAME, "")}
    return frozenset(stated | ({parts[0]} if parts is not None else set())) - {""}


def component_in(template: ModuleTemplate, found: msgspec.Raw | None = None) -> Component | None:
    """Return the component of a template's descriptor, or of what was found for it; None where it is unreadable."""
    descriptor = found if found is not None else template.spec.descriptor
    try:
        return None if is_left_out(descriptor) else component_of(descriptor)
    except DescriptorUnreadable:
        return None


def disagreement(
    template: ModuleTemplate,
    component: Component | None,
    release: ModuleReleaseMeta | None = None,
    *,
    is_signed: bool = False,
) -> str:
    """Return where a template contradicts itself about its module and version, or its release; "" where it does not.

    `component` is what it would install, None where that is not known. The name of a signed one has to say its module,
    unless `release`, the ModuleReleaseMeta of the module, names it.
    """
    contradictions = chain(_of_names(template), _of_component(template, component, release, is_signed))
    return next(contradictions, "")


def _of_names(template: ModuleTemplate) -> Iterator[str]:
    """Yield where name, label and spec of a template say something else."""
    spec, label = template.spec, template.metadata.labels.get(names.MODULE_NAME, "")
    named, module = split_template_name(template.metadata.name), module_of(template)
    if label not in {"", module}:
        yield f"the label {names.MODULE_NAME} is {label!r}, and spec.moduleName is {module!r}"
    if named is not None and named[0] != module:
        where = "spec.moduleName" if spec.module_name else f"the label {names.MODULE_NAME}"
        yield f"metadata.name is that of module {named[0]!r}, and {where} is {module!r}"
    if named is not None and spec.version not in {"", str(named[1])}:
        yield f"metadata.name is that of version {named[1]}, and spec.version is {spec.version}"


def _of_component(
    template: ModuleTemplate, component: Component | None, release: ModuleReleaseMeta | None, is_signed: bool
) -> Iterator[str]:
    """Yield where a template and its release say something else than the component."""
    if component is None:
        return
    module, version, name = module_of(template), version_of(template), component.name[:255]
    if version not in {"", component.version}:
        where = "spec.version is" if template.spec.version else "metadata.name is that of version"
        yield f"{where} {version}, but the component in spec.descriptor has {component.version[:80]}"
    expected = release.spec.ocm_component_name if release is not None else None
    if expected and component.name != expected:
        yield f"the component is {name!r}, and the ocmComponentName of {module} is {expected!r}"
    if is_signed and not expected and component.name.rpartition("/")[2] != module:
        why = f"its name does not end with {module!r}, and no ModuleReleaseMeta has it as ocmComponentName"
        yield f"the component is {name!r}: {why}"
