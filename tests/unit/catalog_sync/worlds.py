"""Worlds with the domain of catalogs."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from kube_runtime import Result
from lifecycle_manager import catalog_sync
from lifecycle_manager.catalog_sync import CatalogSettings
from tests.world import World, key_of, open_world


@asynccontextmanager
async def catalog_world(**settings: Any) -> AsyncIterator[World]:
    """Open a world with the domain, and a Kyma whose SKR was read once."""
    async with open_world() as world:
        given: dict[str, Any] = {"interval_seconds": 0.0} | settings
        catalog_sync.setup(world.manager, world.connections, world.offers, CatalogSettings(**given))
        await world.register()
        yield world


async def sync(world: World, *causes: object) -> Result:
    return await world.turn("catalog", key_of("demo"), *causes)
