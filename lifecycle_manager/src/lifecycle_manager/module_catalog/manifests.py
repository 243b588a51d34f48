"""The Manifest of a module in one SKR: which objects are installed, and from where.

Manifests are identified by their labels, not by their name, so that Manifests which another version of the Lifecycle
Manager named differently are adopted. One that has lost a label gets it again, and is not deleted for the lack of it.
"""

from functools import lru_cache
from typing import Any

import msgspec
from msgspec.structs import replace as with_fields

from kyma_oci import Component
from kyma_oci.descriptor import CONFIG, RAW_MANIFEST
from lifecycle_manager.contract.indexes import MANIFESTS_BY_KYMA
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.offer import link_of, link_pin_of
from lifecycle_manager_api import (
    CustomResourcePolicy,
    ImageSpec,
    InstallInfo,
    Kyma,
    Manifest,
    ManifestSpec,
    ModuleTemplate,
    ObjectMeta,
    OwnerReference,
    boolean,
    joined_name,
    names,
    raw_object,
)

_NULL = msgspec.Raw(b"null")
_ENCODER = msgspec.json.Encoder(order="sorted")


def wanted_manifest(
    kyma: Kyma,
    template: ModuleTemplate,
    component: Component,
    *,
    default_cr: msgspec.Raw,
    channel: str = "",
    policy: CustomResourcePolicy = "CreateAndDelete",
    mandatory: bool = False,
    held: Manifest | None = None,
) -> Manifest | None:
    """Return the Manifest that installs a template, whose component this is, in the SKR of a Kyma.

    None where there is nothing to install: the component has no layer with objects, and the template no link to them.
    `default_cr` is that of the template as the offer has it, `held` the existing Manifest of the module, if any.
    """
    spec = wanted_spec(template, component, default_cr=default_cr, policy=policy)
    if spec is None:
        return None
    if held is not None:
        spec = with_fields(spec, resource=named_as_before(spec.resource, held.spec.resource))
    module = module_of(template)
    owner = OwnerReference(
        api_version=kyma.api_version, kind=kyma.kind, name=kyma.metadata.name, uid=kyma.metadata.uid, controller=True
    )
    return Manifest(
        metadata=ObjectMeta(
            name=held.metadata.name if held is not None else joined_name(kyma.metadata.name, module),
            namespace=kyma.metadata.namespace,
            labels=_labels(kyma, module, channel, mandatory),
            annotations=_annotations(kyma, template, component),
            finalizers=(names.MANIFEST_FINALIZER,),  # set at creation, which saves a write for each module
            owner_references=(owner,),
        ),
        spec=spec,
    )


def named_as_before(wanted: msgspec.Raw, held: msgspec.Raw) -> msgspec.Raw:
    """Return a default Module CR, with the name and namespace that its Manifest holds where it says no name itself.

    The former version gave such an object the name of its Manifest, and so it is in the cluster for ever.
    """
    document, before = raw_object(wanted), raw_object(held)
    if document is None or before is None or (document.get("metadata") or {}).get("name"):
        return wanted
    known = {key: value for key, value in (before.get("metadata") or {}).items() if key in {"name", "namespace"}}
    if "name" not in known or (document.get("apiVersion"), document.get("kind")) != (
        before.get("apiVersion"),
        before.get("kind"),
    ):
        return wanted
    return msgspec.Raw(msgspec.json.encode({**document, "metadata": {**(document.get("metadata") or {}), **known}}))


def wanted_spec(
    template: ModuleTemplate, component: Component, *, default_cr: msgspec.Raw, policy: CustomResourcePolicy
) -> ManifestSpec | None:
    """Return the spec of the Manifests that install a template; None where there is nothing to install."""
    link = link_of(template)
    linked = {"url": link, "digest": link_pin_of(template)} if link is not None else None
    source = component.source(RAW_MANIFEST) or linked
    if source is None:
        return None
    config = component.source(CONFIG)
    return ManifestSpec(
        install=InstallInfo(name=RAW_MANIFEST, source=msgspec.Raw(_ENCODER.encode(source))),
        config=msgspec.convert({**config, "type": "oci-ref"}, ImageSpec) if config is not None else None,
        remote=False,
        custom_resource_policy=policy,
        manager=template.spec.manager,
        resource=default_cr if policy == "CreateAndDelete" else _NULL,
        version=version_of(template) or component.version,
        localized_images=component.images,
    )


def with_content_of(held: Manifest, wanted: Manifest) -> Manifest:
    """Return a wanted Manifest that installs what the existing one does, whatever its template has become."""
    kept, policy = held.spec, wanted.spec.custom_resource_policy
    spec = with_fields(
        wanted.spec,
        install=kept.install,
        config=kept.config,
        manager=kept.manager,
        resource=kept.resource if kept.custom_resource_policy == policy else wanted.spec.resource,
        version=kept.version,
        localized_images=kept.localized_images,
    )
    annotations = dict(wanted.metadata.annotations)
    if component := held.metadata.annotations.get(names.OCM_COMPONENT_NAME):
        annotations[names.OCM_COMPONENT_NAME] = component
    return with_fields(wanted, metadata=with_fields(wanted.metadata, annotations=annotations), spec=spec)


def differs(existing: Manifest, wanted: Manifest) -> bool:
    """Tell whether a Manifest has to be written; labels and annotations of others do not count."""
    held = existing.metadata
    return (
        not wanted.metadata.labels.items() <= held.labels.items()
        or not wanted.metadata.annotations.items() <= held.annotations.items()
        or names.IS_UNMANAGED in held.annotations
        or spec_differs(existing.spec, wanted.spec)
    )


def spec_differs(existing: ManifestSpec, wanted: ManifestSpec) -> bool:
    """Tell whether a Manifest with the one spec installs something else than one with the other."""
    if existing == wanted:
        return False  # the same text, as nearly always: found four times as fast, for all Manifests of a fleet
    images = wanted.localized_images
    return _compared(existing) != _compared(wanted) or (bool(images) and existing.localized_images != images)


def module_of_manifest(manifest: Manifest) -> str:
    """Return the name of the module that a Manifest installs; empty where it has none."""
    return manifest.metadata.labels.get(names.MODULE_NAME, "")


def kyma_of_manifest(manifest: Manifest) -> str:
    """Return the name of the Kyma whose SKR a Manifest installs a module in; empty where it has none."""
    return next(iter(MANIFESTS_BY_KYMA.values(manifest)), "")


def is_mandatory_manifest(manifest: Manifest) -> bool:
    return boolean(manifest.metadata.labels, names.MANDATORY_MODULE)


def _labels(kyma: Kyma, module: str, channel: str, mandatory: bool) -> dict[str, str]:
    labels = {
        names.KYMA_NAME: kyma.metadata.name,
        names.MODULE_NAME: module,
        names.MANAGED_BY: names.LIFECYCLE_MANAGER,
    }
    if channel:
        labels[names.CHANNEL] = channel
    if mandatory:
        labels[names.MANDATORY_MODULE] = "true"
    if kyma.metadata.is_kept_from_former_version:
        labels[names.SKIP_RECONCILIATION] = "true"
    return labels


def _annotations(kyma: Kyma, template: ModuleTemplate, component: Component) -> dict[str, str]:
    annotations = {names.OCM_COMPONENT_NAME: component.name}
    if kyma.metadata.is_kept_from_former_version:
        annotations[names.SKIPPED_BY] = names.FORMER_VERSION
    if boolean(template.metadata.annotations, names.IS_CLUSTER_SCOPED):
        annotations[names.IS_CLUSTER_SCOPED] = "true"
    return annotations


def _compared(spec: ManifestSpec) -> tuple[object, ...]:
    """Return what is compared; embedded objects by value, since API servers format them differently."""
    embedded = [_decoded(bytes(each)) for each in (spec.install.source, spec.resource)]
    return (
        spec.install.name,
        *embedded,
        spec.config,
        spec.custom_resource_policy,
        spec.manager,
        spec.version,
        spec.remote,
    )


@lru_cache(maxsize=4096)
def _decoded(document: bytes) -> Any:
    """Parse an object once for all clusters that have it. It is only compared."""
    return msgspec.json.decode(document)
