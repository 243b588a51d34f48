"""What the keeper of a catalog remembers of a cluster is what it left there, whatever others do meanwhile."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import Resource
from lifecycle_manager.catalog_sync import CatalogReconciler
from lifecycle_manager.catalog_sync.reconciler import RESOURCES
from lifecycle_manager.catalog_sync.record import Record
from lifecycle_manager.catalog_sync.plan import wanted_catalog
from lifecycle_manager.clock import utc_now
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager_api import ModuleReleaseMeta, ModuleTemplate
from tests import builders

OFFER = Offer.of([builders.template("api", "1.0.0")], [builders.release("api", regular="1.0.0")])
CATALOG = wanted_catalog(OFFER, {})
KINDS = (ModuleTemplate.KIND, ModuleReleaseMeta.KIND)


@dataclass
class Cluster:
    """A user cluster in which somebody edits one kind of object right after each write of it."""

    edits: str = ""
    items: dict[tuple[str, str], Any] = field(default_factory=dict)
    writes: int = 0
    server: str = "https://skr.example.com"

    async def list(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        """Return the objects of a kind."""
        return SimpleNamespace(items=tuple(item for (kind, _), item in self.items.items() if kind == resource.kind))

    async def list_revisions(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        """Return the objects of a kind; their revisions are in them."""
        return (await self.list(resource)).items

    async def apply(self, resource: Resource[Any], name: str, document: Any, *_: Any, **__: Any) -> Any:
        """Store an object, and have it edited where that is to be."""
        item = msgspec.json.decode(msgspec.json.encode(document), type=resource.type)
        written = self._stored(resource.kind, name, item)
        if resource.kind == self.edits:
            self._stored(resource.kind, name, written)
        return written

    def _stored(self, kind: str, name: str, item: Any) -> Any:
        self.writes += 1
        metadata = msgspec.structs.replace(item.metadata, uid=name, resource_version=str(self.writes))
        self.items[kind, name] = msgspec.structs.replace(item, metadata=metadata)
        return self.items[kind, name]


@pytest.mark.parametrize("edited", ["", *KINDS])
async def test_edit_that_follows_at_once_is_seen_as_a_change(edited: str) -> None:
    nothing = cast("Any", None)
    keeper = CatalogReconciler(nothing, nothing, nothing, nothing, utc_now)
    skr = cast("Any", Cluster(edited))
    record = Record().with_prints(await keeper._sync(skr, CATALOG, RESOURCES, frozenset()))
    changed = [kind for kind in KINDS if await keeper._was_changed(skr, kind, record)]
    assert changed == ([edited] if edited else [])
