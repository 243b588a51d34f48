"""What has to be done so that a cluster has the catalog that it is to have: pure functions on what is there."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import msgspec

from lifecycle_manager.catalog_sync.wanted import Item, WantedCatalog, WantedItem
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate

Key = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Differences:
    """What to apply, and what to delete by kind and name. What is neither is as it should be, or not ours to change."""

    apply: tuple[WantedItem, ...]
    delete: tuple[Key, ...]


def differences(wanted: WantedCatalog, live: Mapping[Key, Item], kinds: Iterable[str]) -> Differences:
    """Compare what is wanted of some kinds with the objects that we put into the cluster.

    An object that was deleted in the control plane goes; one that this cluster may no longer see stays as it is.
    """
    if wanted.is_frozen:
        return Differences((), ())
    looked_at = frozenset(kinds)
    apply = tuple(
        each
        for key, each in wanted.items.items()
        if key[0] in looked_at and (key not in live or not is_as_wanted(live[key], each.item))
    )
    delete = tuple(sorted(key for key in live if key not in wanted.items and key not in wanted.known))
    return Differences(apply, delete)


def is_as_wanted(live: Item, wanted: Item) -> bool:
    """Tell whether an object has just the content that is wanted, and the labels and annotations at least."""
    held = live.metadata
    if any(held.labels.get(key) != value for key, value in wanted.metadata.labels.items()):
        return False
    if any(held.annotations.get(key) != value for key, value in wanted.metadata.annotations.items()):
        return False
    if isinstance(live, ModuleTemplate) and isinstance(wanted, ModuleTemplate):
        return _same_template(live, wanted)
    if isinstance(live, ModuleReleaseMeta) and isinstance(wanted, ModuleReleaseMeta):
        return live.spec == wanted.spec
    return False


def _same_template(live: ModuleTemplate, wanted: ModuleTemplate) -> bool:
    """Compare two templates; embedded objects by their value, since every server writes them in its own way."""
    if live.spec == wanted.spec:
        return True
    nothing = msgspec.Raw(b"null")
    bare_live = msgspec.structs.replace(live.spec, descriptor=nothing, data=nothing)
    bare_wanted = msgspec.structs.replace(wanted.spec, descriptor=nothing, data=nothing)
    if bare_live != bare_wanted:
        return False
    return _value(live.spec.descriptor) == _value(wanted.spec.descriptor) and _value(live.spec.data) == _value(
        wanted.spec.data
    )


def _value(raw: msgspec.Raw) -> object:
    return msgspec.json.decode(raw)
