"""Validation of ModuleTemplates and ModuleReleaseMetas at admission: pure functions.

Each check is named by what it finds. What the schema of the CRD rejects is not checked again.
"""

from collections.abc import Callable, Iterable

from kyma_oci import DescriptorUnreadable, component_of, host_of, is_left_out
from lifecycle_manager.module_catalog.identity import component_in, disagreement, module_of
from lifecycle_manager.module_catalog.module_kinds import default_kind
from lifecycle_manager.module_catalog.offer import RAW_MANIFEST_LINK, Offer, data_refusal, link_of
from lifecycle_manager.module_catalog.state_paths import check_error
from lifecycle_manager_api import (
    ModuleReleaseMeta,
    ModuleTemplate,
    State,
    raw_object,
    split_template_name,
    template_name,
)

_MODULE_STATES = frozenset({State.READY, State.WARNING, State.ERROR, State.PROCESSING, State.DELETING})


def template_error(template: ModuleTemplate, offer: Offer) -> str | None:
    """Return what is wrong with a ModuleTemplate; None where it can be offered.

    One that is being deleted is not offered, and has to lose its finalizers, whatever is in it.
    """
    if template.metadata.being_deleted:
        return None
    found = (check(template) for check in _CHECKS)
    errors = [*(each for each in found if each is not None), *_contradiction(template, offer)]
    return "; ".join([*errors, *_channel_taken(template, offer)]) or None


def template_warnings(template: ModuleTemplate, offer: Offer) -> tuple[str, ...]:
    """Return warnings: no release names the component to look up (yet), or another module has the kind, too."""
    module, kind, found = module_of(template), _kind_of(template), list[str]()
    release = offer.releases.get(module)
    if is_left_out(template.spec.descriptor) and not (release is not None and release.spec.ocm_component_name):
        found.append(f"spec.descriptor is empty, and there is no ModuleReleaseMeta with {module}'s ocmComponentName")
    others = {module_of(each) for each in offer.templates.values() if kind and _kind_of(each) == kind} - {module}
    if kind and others:
        what = f"{' of '.join(kind)} is the kind of module {min(others)}, too"
        found.append(f"spec.data: {what}; in a cluster with both, the one that came first has it")
    return tuple(found)


def _kind_of(template: ModuleTemplate) -> tuple[str, str] | None:
    found = default_kind(template)
    return (found.kind, found.group) if found is not None else None


def release_warnings(release: ModuleReleaseMeta, offer: Offer) -> tuple[str, ...]:
    """Return a warning for each version of a release that has no ModuleTemplate (yet)."""
    mandatory = (release.spec.mandatory.version,) if release.spec.mandatory is not None else ()
    versions = dict.fromkeys([*(each.version for each in release.spec.channels), *mandatory])
    module = release.spec.module_name
    return tuple(
        f"there is no ModuleTemplate {template_name(module, version)}"
        if template_name(module, version) not in offer.disagreeing
        else f"ModuleTemplate {template_name(module, version)} {offer.absence(module, version)}"
        for version in versions
        if offer.template(module, version) is None
    )


def _descriptor_unreadable(template: ModuleTemplate) -> str | None:
    if is_left_out(template.spec.descriptor):
        return None  # it is looked up
    try:
        component_of(template.spec.descriptor)
    except DescriptorUnreadable as error:
        return str(error)
    return None


def _named_otherwise(template: ModuleTemplate) -> str | None:
    module, version = template.spec.module_name, template.spec.version
    if not module or not version or split_template_name(template.metadata.name) is not None:
        return None  # what its name says is compared with the rest
    return f"metadata.name is {template.metadata.name!r}; it must be {template_name(module, version)!r}"


def _data_not_an_object(template: ModuleTemplate) -> str | None:
    if bytes(template.spec.data) == b"null":
        return None
    data = raw_object(template.spec.data)
    if data is None or not all(isinstance(data.get(key), str) and data[key] for key in ("apiVersion", "kind")):
        return "spec.data is not a Kubernetes object: apiVersion and kind are required"
    return data_refusal(template)


def _state_unknown(template: ModuleTemplate) -> str | None:
    unknown = {
        str(check.mapped_state)
        for check in template.spec.custom_state_check
        if check.mapped_state not in _MODULE_STATES
    }
    if not unknown:
        return None
    return f"spec.customStateCheck: mappedState {', '.join(map(repr, sorted(unknown)))} is not a state of a module"


def _link_not_https(template: ModuleTemplate) -> str | None:
    link = link_of(template)
    if link is None or host_of(link, "https"):
        return None
    return f"spec.resources: the link of {RAW_MANIFEST_LINK} must be an https address"


def _contradiction(template: ModuleTemplate, offer: Offer) -> Iterable[str]:
    release = offer.releases.get(module_of(template))
    if why := disagreement(template, component_in(template), release):
        yield f"{why}; module and version have to be the same everywhere"


def _channel_taken(template: ModuleTemplate, offer: Offer) -> Iterable[str]:
    if not template.spec.channel:
        return
    module = module_of(template)
    other = offer.by_channel.get((module, template.spec.channel))
    if other is not None and other.metadata.name != template.metadata.name:
        yield f"ModuleTemplate {other.metadata.name} already has the channel {template.spec.channel} of {module}"


_CHECKS: tuple[Callable[[ModuleTemplate], str | None], ...] = (
    _descriptor_unreadable,
    _named_otherwise,
    _data_not_an_object,
    _state_unknown,
    lambda template: check_error(template.spec.custom_state_check),
    _link_not_https,
)
