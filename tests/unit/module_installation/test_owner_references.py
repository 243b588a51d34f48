"""An object whose document names an owner, which is in another cluster, stays in the SKR."""

from typing import Any

import pytest

from tests.integration.manifest.test_objects_of_users import created, is_there
from tests.manifest_clusters import Modules
from tests.modules import config_map

OWNER = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": "3f0c1a52-0000-4000-8000-000000000000"}


def owned(name: str) -> dict[str, Any]:
    document = config_map(name)
    return {**document, "metadata": {**document["metadata"], "ownerReferences": [OWNER]}}


@pytest.mark.parametrize("is_the_users", [False, True])
async def test_object_is_not_collected_for_an_owner_that_its_document_names(world: Modules, is_the_users: bool) -> None:
    if is_the_users:
        await created(world.skr, config_map("settings"))
    await world.want([owned("settings")])
    await world.reconcile()
    assert await is_there(world.skr, "settings")
