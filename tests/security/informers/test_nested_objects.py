"""One object that is nested too deep, or a few that are large, hide no other object of their kind."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kube_runtime import (
    Backoff,
    Client,
    ClientOptions,
    Informer,
    JsonLimits,
    KubeconfigPolicy,
    ObjectKey,
    Resource,
    ResponseInvalid,
    ResponseTooLarge,
)
from kube_runtime.client import reading
from kube_runtime.leases.lease import LEASES
from lifecycle_manager.contract import resources
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, MODULE_CONFIGS, MODULE_TEMPLATES, SYNC_RESOURCES
from lifecycle_manager_api import ApiObject, as_document
from tests import builders
from tests.kubeconfigs import kubeconfig
from tests.serving import serving
from tests.waiting import eventually

KINDS: tuple[Resource[Any], ...] = tuple(
    {each.plural_name: each for each in (*vars(resources).values(), LEASES) if isinstance(each, Resource)}.values()
)
FIELDS = {
    MODULE_TEMPLATES: ("spec", "data"),
    MODULE_CONFIGS: ("status", "moduleStatus"),
    MANIFESTS: ("spec", "resource"),
}
SAMPLES: dict[str, ApiObject] = {
    each.KIND: each
    for each in (
        builders.kyma(),
        builders.manifest(),
        builders.module_config(),
        builders.release(regular="1.0.0"),
        builders.sync_resource(),
        builders.template(),
    )
}
SPECS: dict[str, Any] = {
    "ModuleRollout": {"moduleName": "a", "channel": "fast", "version": "1.0.0", "strategy": {"waves": []}},
    "RolloutStrategy": {"waves": []},
    "ModulePolicy": {"module": "a"},
    "Watcher": {
        "field": "spec",
        "gateway": {"selector": {}},
        "resourceToWatch": {"group": "a", "version": "v1", "resource": "a"},
        "serviceInfo": {"name": "a", "namespace": "a", "port": 1},
    },
}


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b"1" + b"}" * depth


class Server:
    """A server that stores texts, and sends the changes of `watched` once."""

    def __init__(self) -> None:
        self.texts: dict[str, bytes] = {}
        self.lines: asyncio.Queue[bytes] = asyncio.Queue()
        self.limits: list[int] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        if "watch" in request.query:
            response = web.StreamResponse()
            await response.prepare(request)
            while True:
                await response.write(await self.lines.get() + b"\n")
        first = int(request.query.get("continue", "0"))
        end = first + int(request.query.get("limit", "1000"))
        self.limits.append(end - first)
        names = sorted(self.texts)
        token = str(end) if end < len(names) else ""
        metadata = b'"metadata":{"resourceVersion":"100","continue":"%s"}' % token.encode()
        items = b",".join(self.texts[name] for name in names[first:end])
        return web.Response(body=b'{"apiVersion":"v1",%s,"items":[%s]}' % (metadata, items))


def text(resource: Resource[Any], name: str, version: int, depth: int = 0) -> bytes:
    """Return an object of a kind, nested so deep in its field of any content and in `managedFields`."""
    sample = SAMPLES.get(resource.kind)
    item: dict[str, Any] = {}
    item |= {"apiVersion": resource.api_version, "kind": resource.kind, "spec": dict(SPECS.get(resource.kind, {}))}
    if sample is not None:
        item = as_document(sample)
    metadata = {"name": name, "namespace": "kcp-system", "resourceVersion": str(version), "uid": name}
    item["metadata"] = {"annotations": {"a": '"[{\\'}, "managedFields": [{"fieldsV1": "NESTED"}], **metadata}
    part, field = FIELDS.get(resource, ("spec", "unknown"))
    item.setdefault(part, {})[field] = "NESTED"
    return bytes(msgspec.json.encode(item).replace(b'"NESTED"', nested(depth) if depth else b"null"))


@asynccontextmanager
async def client_of(server: Server, **options: Any) -> AsyncIterator[Client]:
    async with serving(server.answer, handler_cancellation=True) as host:
        document, policy = kubeconfig({}, server=f"http://{host}"), KubeconfigPolicy.permissive()
        async with await Client.from_kubeconfig(document, options=ClientOptions(**options), policy=policy) as client:
            yield client


@asynccontextmanager
async def following(client: Client, resource: Resource[Any]) -> AsyncIterator[Informer[Any]]:
    informer = Informer(client, resource, namespace="kcp-system", backoff=Backoff(base=0.01, max=0.01))
    task = asyncio.create_task(informer.run())
    try:
        await informer.wait_synced(5)
        yield informer
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("depth", [100, 250, 900, 1_500, 10_000])
@pytest.mark.parametrize("resource", KINDS, ids=lambda each: each.plural)
async def test_nested_object_of_any_watched_kind_hides_no_other(resource: Resource[Any], depth: int) -> None:
    def key(name: str) -> ObjectKey:
        return ObjectKey("kcp-system", name)

    server = Server()
    server.texts = {name: text(resource, name, 1) for name in ("a", "b", "c")}
    async with client_of(server) as client:
        async with following(client, resource) as informer:
            for line in (text(resource, "b", 101, depth), text(resource, "c", 102)):
                server.lines.put_nowait(b'{"type":"MODIFIED","object":%s}' % line)
            assert len(informer.cache) == 3
            await eventually(lambda: _version(informer, key("c")) == "102")
            assert _version(informer, key("b")) in {"1", "101"}
            assert informer.last_error is None
            server.lines.put_nowait(b'{"type":"DELETED","object":%s}' % text(resource, "b", 103, depth))
            await eventually(lambda: informer.cache.get(key("b")) is None)
        server.texts["b"] = text(resource, "b", 101, depth)
        async with following(client, resource) as informer:  # another replica starts
            assert {each.name for each in set(informer.cache.keys())} - {"b"} == {"a", "c"}
            assert informer.last_error is None


def _version(informer: Informer[Any], key: ObjectKey) -> str:
    return informer.resource.version_of(informer.cache.get(key))


async def test_large_objects_are_listed_in_smaller_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MAX_PAGE_BYTES", 3_000)
    server = Server()
    server.texts = {f"{number:03}": text(SYNC_RESOURCES, f"{number:03}", 1) for number in range(40)}
    async with client_of(server) as client, following(client, SYNC_RESOURCES) as informer:
        assert len(informer.cache) == 40
        assert len(await client.list_revisions(SYNC_RESOURCES)) == 40
    assert min(server.limits) > 1


async def listed(client: Client, resource: Resource[Any], limits: JsonLimits) -> list[bytes]:
    return [bytes(each) async for page in client.undecoded_pages(resource, limits=limits) for each in page]


async def test_few_large_objects_cost_small_pages_only_where_they_are() -> None:
    server = Server()
    server.texts = {f"{number:04}": text(SYNC_RESOURCES, f"{number:04}", 1) for number in range(1_000)}
    large = text(SYNC_RESOURCES, "large", 1, depth=400)
    server.texts |= {f"{number:04}-large": large for number in (0, 1, 2, 3, 250, 999)}
    async with client_of(server, qps=0) as client:
        limits = JsonLimits(max_bytes=35_000, max_nodes=10_000, max_depth=None)
        found = await listed(client, SYNC_RESOURCES, limits)
    assert len(found) == len(server.texts)
    assert len(server.limits) < 120
    assert server.limits.count(50) >= 15


async def test_empty_pages_without_end_are_refused_at_the_first() -> None:
    class Endless(Server):
        async def answer(self, request: web.Request) -> web.StreamResponse:
            self.limits.append(0)
            return web.Response(body=b'{"metadata":{"resourceVersion":"1","continue":"x"},"items":[]}')

    server = Endless()
    limits = JsonLimits(1_000_000, 100_000)
    async with client_of(server) as client, asyncio.timeout(60):
        for read in (
            client.list(KYMAS),
            client.list_revisions(KYMAS),
            listed(client, KYMAS, limits),
        ):
            with pytest.raises(ResponseInvalid, match="without objects"):
                await read
    assert len(server.limits) == 3


async def test_pages_of_one_small_object_end_too() -> None:
    class Endless(Server):
        async def answer(self, request: web.Request) -> web.StreamResponse:
            self.limits.append(0)
            return web.Response(body=b'{"metadata":{"continue":"x"},"items":[{"metadata":{"name":"a"}}]}')

    server = Endless()
    limits = JsonLimits(1_000_000, 100_000)
    async with client_of(server, max_list_bytes=1024 * 1024, qps=0) as client, asyncio.timeout(60):
        with pytest.raises(ResponseTooLarge):
            await listed(client, KYMAS, limits)
    assert len(server.limits) <= 65
