"""What the users of a cluster are to see of the catalog: a pure function of the offer and the labels of their Kyma.

Clusters that may see the same share one result, so that a fleet of thousands costs as much as its few kinds of
cluster. Mandatory modules are nobody's to choose, and are not shown.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from lifecycle_manager.module_catalog import Offer, excluded, module_of
from lifecycle_manager.module_catalog.audience import is_selected
from lifecycle_manager_api import (
    ModuleReleaseMeta,
    ModuleReleaseMetaSpec,
    ModuleTemplate,
    ObjectMeta,
    as_document,
    names,
    template_name,
)

Item = ModuleTemplate | ModuleReleaseMeta
_SHOWN_LABELS = frozenset({names.MODULE_NAME, names.CHANNEL, names.INTERNAL, names.BETA})
_SHOWN_ANNOTATIONS = frozenset({names.IS_CLUSTER_SCOPED})


@dataclass(frozen=True, slots=True)
class WantedItem:
    """One object of the catalog as a cluster has it, and the document that is sent for it."""

    item: Item
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class WantedCatalog:
    """The catalog of one kind of cluster.

    `items` are by kind and name. `known` names all that the control plane has and might be shown to somebody: of that,
    what a cluster may no longer see stays there as it is. `digest` changes with any of it. One that `is_frozen` reaches
    nobody any more: whatever becomes of the catalog, what is in the cluster stays.
    """

    items: Mapping[tuple[str, str], WantedItem]
    known: frozenset[tuple[str, str]]
    digest: str
    is_frozen: bool = False


@dataclass(eq=False)
class Catalogs:
    """Gives the catalog for the labels of a Kyma; made anew only when the offer is another one."""

    _offer: Offer | None = field(default=None, init=False)
    _made: dict[tuple[bool, ...], WantedCatalog] = field(default_factory=dict, init=False)

    def for_labels(self, offer: Offer, labels: Mapping[str, str]) -> WantedCatalog:
        """Return what a Kyma with these labels is to have in its cluster."""
        if self._offer is not offer:
            self._offer, self._made = offer, {}
        audience = tuple(_audience(offer, labels))
        if audience not in self._made:
            self._made[audience] = wanted_catalog(offer, labels)
        return self._made[audience]


def wanted_catalog(offer: Offer, labels: Mapping[str, str]) -> WantedCatalog:
    """Decide what a Kyma with these labels is to have in its cluster.

    Nothing is brought there any more where the label `sync` of the Kyma, or of the object itself, is `false`. A release
    of which it can have no version is not shown to it. One that is there already stays: that a template can't be seen
    is no proof that it is gone.
    """
    if not is_synchronized(labels):
        return WantedCatalog({}, frozenset(), _digest((), frozenset()), is_frozen=True)
    choosable = [template for template in offer.templates.values() if offer.can_be_chosen(template)]
    released = [release for release in offer.releases.values() if release.spec.mandatory is None]
    items: list[Item] = [
        *(
            _shown_template(template)
            for template in choosable
            if is_synchronized(template.metadata.labels)
            and excluded(labels, template, offer.releases.get(module_of(template))) is None
        ),
        *(
            shown
            for release in released
            if is_synchronized(release.metadata.labels)
            and (shown := _shown_release(release, offer, labels)).spec.channels
        ),
    ]
    wanted = {(item.KIND, item.metadata.name): WantedItem(item, as_document(item)) for item in items}
    known = frozenset((item.KIND, item.metadata.name) for item in (*choosable, *released))
    return WantedCatalog(wanted, known, _digest(wanted.values(), known))


def is_synchronized(labels: Mapping[str, str]) -> bool:
    """Tell whether these labels of a Kyma, ModuleTemplate or ModuleReleaseMeta leave the catalog to be synchronized."""
    return labels.get(names.SYNC) != "false"


def _audience(offer: Offer, labels: Mapping[str, str]) -> Iterable[bool]:
    """Give all that matters of a Kyma's labels."""
    yield is_synchronized(labels)
    yield labels.get(names.INTERNAL) == "true"
    yield labels.get(names.BETA) == "true"
    for release in offer.releases.values():
        if release.spec.kyma_selector is not None:
            yield is_selected(release, labels)


def _shown_template(template: ModuleTemplate) -> ModuleTemplate:
    return ModuleTemplate(metadata=_shown_metadata(template), spec=template.spec)


def _shown_release(release: ModuleReleaseMeta, offer: Offer, labels: Mapping[str, str]) -> ModuleReleaseMeta:
    """Return a ModuleReleaseMeta with the channels whose version this cluster may have, and without the selection."""

    def may_be_had(version: str) -> bool:
        template = offer.templates.get(template_name(release.spec.module_name, version))
        if template is None or not offer.can_be_chosen(template):
            return False
        return excluded(labels, template, release) is None  # as the release says, too

    spec = ModuleReleaseMetaSpec(
        module_name=release.spec.module_name,
        beta=release.spec.beta,
        internal=release.spec.internal,
        channels=tuple(channel for channel in release.spec.channels if may_be_had(channel.version)),
        ocm_component_name=release.spec.ocm_component_name,
    )
    return ModuleReleaseMeta(metadata=_shown_metadata(release), spec=spec)


def _shown_metadata(item: Item) -> ObjectMeta:
    metadata = item.metadata
    labels = {key: value for key, value in metadata.labels.items() if key in _SHOWN_LABELS}
    labels |= {names.WATCHED_BY: "kyma", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    annotations = {key: value for key, value in metadata.annotations.items() if key in _SHOWN_ANNOTATIONS}
    annotations[names.OWNED_BY] = f"{metadata.namespace}/{metadata.name}"
    return ObjectMeta(name=metadata.name, namespace=names.SKR_NAMESPACE, labels=labels, annotations=annotations)


def _digest(items: Iterable[WantedItem], known: frozenset[tuple[str, str]]) -> str:
    encoder = msgspec.json.Encoder(order="sorted")
    digest = hashlib.blake2b(digest_size=8)
    for text in sorted(encoder.encode(each.document) for each in items):
        digest.update(text)
    digest.update(encoder.encode(sorted(known)))
    return digest.hexdigest()
