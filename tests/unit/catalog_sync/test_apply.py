"""The recorded fingerprints are those of the objects as LM wrote them, whatever others write meanwhile."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import ObjectKey, Request, Resource
from lifecycle_manager.catalog_sync.apply import SkrCatalog
from lifecycle_manager.catalog_sync.rules import CatalogDifferences
from lifecycle_manager.catalog_sync.snapshot import CatalogRecord, CatalogSnapshot, CatalogState
from lifecycle_manager.catalog_sync.wanted import KINDS, wanted_catalog
from lifecycle_manager.module_catalog.offer import Offer
from tests import builders

OFFER = Offer.of([builders.template("api", "1.0.0")], [builders.release("api", regular="1.0.0")])
CATALOG = wanted_catalog(OFFER, {})
SNAPSHOT = CatalogSnapshot(
    kyma=builders.kyma(), now=builders.NOW, wanted=CATALOG, record=CatalogRecord(), interval_seconds=600.0
)


@dataclass
class Cluster:
    """An SKR in which somebody edits one kind of object right after each write of it."""

    edits: str = ""
    items: dict[tuple[str, str], Any] = field(default_factory=dict)
    writes: int = 0
    server: str = "https://skr.example.com"

    @asynccontextmanager
    async def to(self, _kyma: str) -> AsyncIterator["Cluster"]:
        """Return itself, as the connections to all SKRs."""
        yield self

    async def list_revisions(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        """Return the objects of a kind; their resource versions are in them."""
        return tuple(item for (kind, _), item in self.items.items() if kind == resource.kind)

    async def list(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        return SimpleNamespace(items=await self.list_revisions(resource))

    async def apply(self, resource: Resource[Any], name: str, document: Any, *_: Any, **__: Any) -> Any:
        """Store an object, and edit it if it is of that kind."""
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
async def test_edit_that_follows_a_write_at_once_is_seen_as_a_change(edited: str) -> None:
    async with Request(ObjectKey("kcp-system", "demo"), CatalogState()) as request:
        catalog = SkrCatalog(cast("Any", Cluster(edited)), request)
        await catalog.write(SNAPSHOT, CatalogDifferences(tuple(CATALOG.items.values())), KINDS, {})
        assert await catalog.changed() == ((edited,) if edited else ())
