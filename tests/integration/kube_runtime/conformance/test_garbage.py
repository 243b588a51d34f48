"""What becomes of dependents when their owner is deleted, in each of the three ways."""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any

import pytest

from tests.integration.kube_runtime.conformance.both import JSON, MERGE, Both, Server
from tests.integration.kube_runtime.conformance.widgets import config_map
from tests.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"


@pytest.fixture(params=["real", "simulated"])
def server(both: Both, request: pytest.FixtureRequest) -> Server:
    """One of the two, for what differs in uids on the way."""
    return both.real if request.param == "real" else both.simulated


@pytest.fixture
def path(both: Both) -> str:
    return CONFIG_MAPS.replace("{ns}", both.namespace)


async def owner_and_dependent(server: Server, path: str, **metadata: Any) -> None:
    _, owner = await server.ask("POST", path, config_map("owner"), JSON)
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
    owned = {"ownerReferences": [{**reference, "blockOwnerDeletion": True}], **metadata}
    code, _ = await server.ask("POST", path, config_map("dependent", owned), JSON)
    assert code == 201


async def collected(condition: Callable[[], Awaitable[bool]]) -> None:
    """Wait for the garbage collector: for half a minute it receives no event while it discovers new kinds."""
    await eventually(condition, within=150)


async def is_missing(server: Server, path: str) -> bool:
    code, _ = await server.ask("GET", path, None, JSON)
    return code == 404


async def is_orphan(server: Server, path: str) -> bool:
    _, found = await server.ask("GET", path, None, JSON)
    return "ownerReferences" not in found["metadata"]


async def is_being_deleted(server: Server, path: str) -> bool:
    _, found = await server.ask("GET", path, None, JSON)
    return "deletionTimestamp" in found["metadata"]


async def test_dependents_go_after_their_owner(server: Server, path: str) -> None:
    await owner_and_dependent(server, path)
    await server.ask("DELETE", f"{path}/owner", {"propagationPolicy": "Background"}, JSON)
    assert await is_missing(server, f"{path}/owner")
    await collected(partial(is_missing, server, f"{path}/dependent"))


async def test_orphans_stay_and_forget_their_owner(server: Server, path: str) -> None:
    await owner_and_dependent(server, path)
    await server.ask("DELETE", f"{path}/owner", {"propagationPolicy": "Orphan"}, JSON)
    await collected(partial(is_missing, server, f"{path}/owner"))
    await collected(partial(is_orphan, server, f"{path}/dependent"))


async def test_owner_that_is_deleted_in_the_foreground_waits_for_those_that_block_it(server: Server, path: str) -> None:
    await owner_and_dependent(server, path, finalizers=["example.com/held"])
    await server.ask("DELETE", f"{path}/owner", {"propagationPolicy": "Foreground"}, JSON)
    await collected(partial(is_being_deleted, server, f"{path}/dependent"))
    assert await is_being_deleted(server, f"{path}/owner")
    await server.ask("PATCH", f"{path}/dependent", {"metadata": {"finalizers": None}}, MERGE)
    await collected(partial(is_missing, server, f"{path}/dependent"))
    await collected(partial(is_missing, server, f"{path}/owner"))


async def test_object_of_an_owner_that_never_was_goes(server: Server, path: str) -> None:
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "nobody", "uid": "nobodys"}
    await server.ask("POST", path, config_map("dependent", {"ownerReferences": [reference]}), JSON)
    await collected(partial(is_missing, server, f"{path}/dependent"))
