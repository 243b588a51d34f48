"""The catalog that an SKR has: a pure function of the offer and the labels of the Kyma.

SKRs with the same audience share one result, so that thousands of SKRs cost as much as a few. Users can't choose
mandatory modules, so these are not in the catalog.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kube_runtime import KubernetesObject
from lifecycle_manager.contract.resources import labelled_crd
from lifecycle_manager.module_catalog.audience import excluded, is_excluded
from lifecycle_manager.module_catalog.identity import module_of
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_catalog.state_paths import check_error
from lifecycle_manager_api import (
    ModuleReleaseMeta,
    ModuleTemplate,
    ModuleTemplateSpec,
    ObjectMeta,
    as_document,
    boolean,
    crds,
    names,
)

Item = ModuleTemplate | ModuleReleaseMeta
Key = tuple[str, str]
"""Kind and name of an object of the catalog."""
KINDS = (ModuleTemplate.KIND, ModuleReleaseMeta.KIND)
_CRD_DOCUMENTS = [labelled_crd(crds.crd_for(kind)) for kind in (ModuleTemplate, ModuleReleaseMeta)]
CRDS = tuple(KubernetesObject.of(document) for document in _CRD_DOCUMENTS)
CRDS_DIGEST = hashlib.blake2b(msgspec.json.encode(_CRD_DOCUMENTS, order="sorted"), digest_size=8).hexdigest()
WRITTEN_ALWAYS: Mapping[str, Mapping[str, Any]] = {
    ModuleTemplate.KIND: {"channel": "", "mandatory": False, "requiresDowntime": False},
    ModuleReleaseMeta.KIND: {"beta": False, "internal": False},
}
_COPIED_LABELS = frozenset({names.MODULE_NAME, names.CHANNEL, names.INTERNAL, names.BETA})
_COPIED_ANNOTATIONS = frozenset({names.IS_CLUSTER_SCOPED})


@dataclass(frozen=True, slots=True)
class WantedItem:
    """One object of the catalog as an SKR has it, and the document that is applied for it."""

    item: Item
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WantedCatalog:
    """The catalog of one audience.

    - `items`: the objects of the catalog
    - `known`: all objects in KCP that are in the catalog of some audience, without those that this one is barred from;
      they are not deleted from an SKR
    - `digest`: changes with both
    - `is_frozen`: synchronization is off, and the objects in the SKR stay as they are
    """

    items: Mapping[Key, WantedItem]
    known: frozenset[Key]
    digest: str
    is_frozen: bool = False


@dataclass(eq=False)
class Catalogs:
    """Returns the catalog for the labels of a Kyma, computed once for each offer and audience."""

    _offer: Offer | None = field(default=None, init=False)
    _by_audience: dict[tuple[bool, ...], WantedCatalog] = field(default_factory=dict, init=False)

    def for_labels(self, offer: Offer, labels: Mapping[str, str]) -> WantedCatalog:
        if self._offer is not offer:
            self._offer, self._by_audience = offer, {}
        audience = tuple(_audience(offer, labels))
        if audience not in self._by_audience:
            self._by_audience[audience] = wanted_catalog(offer, labels)
        return self._by_audience[audience]


def wanted_catalog(offer: Offer, labels: Mapping[str, str]) -> WantedCatalog:
    """Return the catalog of a Kyma with these labels.

    That is what channels name. Where the label `sync` of the Kyma is `false`, nothing is synchronized; an object with
    that label is left out. So is a release without a version that the Kyma may have. An object that the SKR has already
    stays there, unless it is deleted in KCP, no channel names it, or its module is for selected Kymas that this one is
    not among.
    """
    if not is_synchronized(labels):
        return WantedCatalog({}, frozenset(), _digest((), frozenset()), is_frozen=True)
    choosable = [
        template
        for template in offer.templates.values()
        if offer.can_be_chosen(template) and offer.is_in_a_channel(template)
    ]
    released = [release for release in offer.releases.values() if release.spec.mandatory is None]
    items: list[Item] = [
        *(
            ModuleTemplate(metadata=_metadata_for_skr(template), spec=_spec_for_skr(template.spec))
            for template in choosable
            if is_synchronized(template.metadata.labels)
            and excluded(labels, template, offer.releases.get(module_of(template))) is None
        ),
        *(
            copy
            for release in released
            if is_synchronized(release.metadata.labels)
            and (copy := _release_for_skr(release, offer, labels)).spec.channels
        ),
    ]
    wanted = {(item.KIND, item.metadata.name): WantedItem(item, _document(item)) for item in items}
    known = frozenset(
        (item.KIND, item.metadata.name)
        for item, release in (
            *((template, offer.releases.get(module_of(template))) for template in choosable),
            *((release, release) for release in released),
        )
        if not is_excluded(labels, release)
    )
    return WantedCatalog(wanted, known, _digest(wanted.values(), known))


def _document(item: Item) -> Mapping[str, Any]:
    """Return what is applied, with the fields that are written although they say what a missing one does."""
    document = as_document(item)
    return {**document, "spec": {**WRITTEN_ALWAYS[item.KIND], **document["spec"]}}


def is_synchronized(labels: Mapping[str, str]) -> bool:
    """Tell whether the labels of a Kyma, ModuleTemplate or ModuleReleaseMeta allow its synchronization."""
    return boolean(labels, names.SYNC, default=True)


def _audience(offer: Offer, labels: Mapping[str, str]) -> Iterable[bool]:
    """Yield what decides between catalogs in the labels of a Kyma."""
    yield is_synchronized(labels)
    yield boolean(labels, names.INTERNAL)
    yield boolean(labels, names.BETA)
    for release in offer.releases.values():
        if release.spec.kyma_selector is not None:
            yield release.spec.kyma_selector.matches(labels)


def _release_for_skr(release: ModuleReleaseMeta, offer: Offer, labels: Mapping[str, str]) -> ModuleReleaseMeta:
    """Return a ModuleReleaseMeta with the channels whose version this Kyma may have, and without the selector."""

    def may_have(version: str) -> bool:
        template = offer.named(release.spec.module_name, version)
        return template is not None and offer.can_be_chosen(template) and excluded(labels, template, release) is None

    channels = tuple(channel for channel in release.spec.channels if may_have(channel.version))
    spec = msgspec.structs.replace(release.spec, channels=channels, kyma_selector=None)
    return ModuleReleaseMeta(metadata=_metadata_for_skr(release), spec=spec)


def _spec_for_skr(spec: ModuleTemplateSpec) -> ModuleTemplateSpec:
    """Return a spec without state checks that are invalid: an SKR would refuse all of it."""
    is_valid = check_error(spec.custom_state_check) is None
    return spec if is_valid else msgspec.structs.replace(spec, custom_state_check=())


def _metadata_for_skr(item: Item) -> ObjectMeta:
    metadata = item.metadata
    labels = {key: value for key, value in metadata.labels.items() if key in _COPIED_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    annotations = {key: value for key, value in metadata.annotations.items() if key in _COPIED_ANNOTATIONS}
    annotations[names.OWNED_BY] = f"{metadata.namespace}/{metadata.name}"
    return ObjectMeta(name=metadata.name, namespace=names.SKR_NAMESPACE, labels=labels, annotations=annotations)


def _digest(items: Iterable[WantedItem], known: frozenset[Key]) -> str:
    encoder = msgspec.json.Encoder(order="sorted")
    digest = hashlib.blake2b(digest_size=8)
    for text in sorted(encoder.encode(each.document) for each in items):
        digest.update(text)
    digest.update(encoder.encode(sorted(known)))
    return digest.hexdigest()
