"""The recorded fingerprints are those of the objects as LM wrote them, whatever others write meanwhile."""

from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any, cast

import msgspec
import pytest

from kube_runtime import Resource
from lifecycle_manager.catalog_sync.apply import CRDS_DIGEST, Sync
from lifecycle_manager.catalog_sync.plan import CheckResourceVersions, WriteObjects
from lifecycle_manager.catalog_sync.record import Record
from lifecycle_manager.catalog_sync.snapshot import SyncSnapshot
from lifecycle_manager.catalog_sync.wanted import KINDS, wanted_catalog
from lifecycle_manager.module_catalog import Offer
from tests import builders

OFFER = Offer.of([builders.template("api", "1.0.0")], [builders.release("api", regular="1.0.0")])
CATALOG = wanted_catalog(OFFER, {})
SNAPSHOT = SyncSnapshot(
    kyma=builders.kyma(),
    wanted=CATALOG,
    record=Record(),
    crds_digest=CRDS_DIGEST,
    kinds_to_check=KINDS,
    is_due=True,
    seconds_until_due=0.0,
    interval_seconds=600.0,
)


@dataclass
class Cluster:
    """An SKR in which somebody edits one kind of object right after each write of it."""

    edits: str = ""
    items: dict[tuple[str, str], Any] = field(default_factory=dict)
    writes: int = 0
    server: str = "https://skr.example.com"

    async def list_revisions(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        """Return the objects of a kind; their resource versions are in them."""
        return tuple(item for (kind, _), item in self.items.items() if kind == resource.kind)

    async def list(self, resource: Resource[Any], *_: Any, **__: Any) -> Any:
        """Return the objects of a kind."""
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
    sync = Sync(cast("Any", Cluster(edited)))
    written = await sync.apply(replace(SNAPSHOT, live={}), WriteObjects(KINDS, tuple(CATALOG.items.values()), ()))
    checked = await sync.apply(written, CheckResourceVersions(KINDS))
    assert checked.changed_kinds == ((edited,) if edited else ())
