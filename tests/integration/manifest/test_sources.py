"""Layers pulled from a real registry, and from servers on which everything goes wrong that can."""

import asyncio
import gzip
import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from aiohttp import web

from kube_runtime import dump_yaml
from kyma_oci import Login, Registries, SourceError, SourceInvalid, SourceUnreachable
from kyma_oci.problems import (
    AccessRefused,
    ArchiveUnsafe,
    DigestMismatch,
    LayerNotFound,
    LayerTooLarge,
    LayerTruncated,
    RegistryBusy,
)
from lifecycle_manager.module_sources.parsing import ModuleObjects, ObjectsInvalid
from lifecycle_manager.module_sources.references import source_in
from lifecycle_manager.module_sources.store import LinkChanged, ObjectStore, SourceAwaited
from tests.registries import NAME, PASSWORD, NoRegistry, blob_server, digest_of, no_link, packed, push, real_registry
from tests.serving import Handler, serving

REPOSITORY = "modules/component-descriptors/kyma-project.io/module/telemetry"
CONFIG_MAP = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}})
OTHER_MAP = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "two"}})
ACCESS = "https://registry.example.com/modules kcp-system/pull"


def layer(host: str, digest: str, **changed: Any) -> Any:
    source = {
        "type": "oci-ref",
        "repo": f"http://{host}/modules/component-descriptors",
        "name": "kyma-project.io/module/telemetry",
        "ref": digest,
    }
    return source_in(msgspec.Raw(msgspec.json.encode(source | changed)))


def login(given: Login | None = None) -> Callable[[str], Awaitable[Login | None]]:
    async def for_host(_host: str) -> Login | None:
        return given

    return for_host


@pytest.fixture
async def store() -> AsyncIterator[ObjectStore]:
    """An empty store."""
    registries = Registries()
    yield ObjectStore(registries, no_link)
    await registries.close()


def names_in(found: ModuleObjects) -> list[str]:
    return [each.name for each in found.objects]


@pytest.mark.parametrize("private", [False, True])
async def test_layer_comes_from_a_real_registry(tmp_path: Path, store: ObjectStore, private: bool) -> None:
    content = packed({"manifests/one.yaml": CONFIG_MAP, "manifests/two.yaml": OTHER_MAP, "README.md": "no object"})
    try:
        async with real_registry(tmp_path, private=private) as host:
            digest = await push(host, REPOSITORY, content, private=private)
            found = await store.objects(layer(host, digest), login(Login(NAME, PASSWORD) if private else None))
            assert names_in(found) == ["one", "two"]
            missing = layer(host, digest_of(b"something else"))
            with pytest.raises(LayerNotFound, match="has no"):
                await store.objects(missing, login(Login(NAME, PASSWORD) if private else None))
    except NoRegistry as error:
        pytest.skip(str(error))


async def test_private_registry_refuses_strangers_and_wrong_passwords(tmp_path: Path) -> None:
    registries = Registries()
    try:
        async with real_registry(tmp_path, private=True) as host:
            digest = await push(host, REPOSITORY, b"{}", private=True)
            with pytest.raises(AccessRefused, match="needs credentials"):
                await registries.pull(layer(host, digest))
            with pytest.raises(AccessRefused, match="check the registry's credentials"):
                await registries.pull(layer(host, digest), Login(NAME, "let me in"))
    except NoRegistry as error:
        pytest.skip(str(error))
    finally:
        await registries.close()


@pytest.mark.parametrize(
    "challenge",
    [
        'Bearer realm="{}",service="modules"',
        'Bearer realm="{}",service=modules, Basic realm="modules"',
        'Negotiate, BASIC realm="of all, modules", bearer Realm="{}", Service="modules"',
    ],
)
async def test_token_is_requested_where_the_registry_says_and_sent_to_no_other_host(
    store: ObjectStore, challenge: str
) -> None:
    content, signed = CONFIG_MAP.encode(), "/sha256%3A1?path=modules%2Fone&signature=a%2Bb%3D%7E"
    received: list[tuple[str, str]] = []

    async def storage(request: web.Request) -> web.Response:
        received.append((request.raw_path, request.headers.get("Authorization", "")))
        return web.Response(body=content)

    async with serving(storage) as elsewhere:

        async def registry(request: web.Request) -> web.StreamResponse:
            authorization = request.headers.get("Authorization", "")
            received.append((request.path, authorization))
            if request.path == "/token":
                assert request.query["service"] == "modules"
                assert request.query["scope"] == f"repository:{REPOSITORY}:pull"
                return web.json_response({"token": "let-me-pass"})
            if authorization == "Bearer let-me-pass":
                return web.Response(status=307, headers={"Location": f"http://{elsewhere}{signed}"})
            asked = challenge.format(f"http://{request.host}/token")
            return web.Response(status=401, headers={"WWW-Authenticate": asked})

        async with serving(registry) as host:
            found = await store.objects(layer(host, digest_of(content)), login(Login(NAME, PASSWORD)))
    assert names_in(found) == ["one"]
    assert ("/token", Login(NAME, PASSWORD).basic) in received
    assert received[-1] == (signed, "")


async def test_token_may_come_in_parts(store: ObjectStore) -> None:
    async def registry(request: web.Request) -> web.StreamResponse:
        if request.path == "/token":
            response = web.StreamResponse()
            await response.prepare(request)
            for part in (b'{"token": ', b'"let-me-', b'pass"}'):
                await response.write(part)
                for _ in range(20):
                    await asyncio.sleep(0)  # whoever asks has read it by now
            return response
        if request.headers.get("Authorization") == "Bearer let-me-pass":
            return web.Response(body=CONFIG_MAP)
        challenge = f'Bearer realm="http://{request.host}/token"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    async with serving(registry) as host:
        found = await store.objects(layer(host, digest_of(CONFIG_MAP.encode())), login(Login(NAME, PASSWORD)))
    assert names_in(found) == ["one"]


async def test_host_of_a_redirect_gets_no_credentials_though_it_asks(store: ObjectStore) -> None:
    received: list[str] = []

    async def curious(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization", ""))
        if request.path == "/token":
            return web.json_response({"token": "let-me-pass"})
        challenge = f'Bearer realm="http://{request.host}/token"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    async with serving(curious) as elsewhere:

        async def registry(_request: web.Request) -> web.Response:
            raise web.HTTPTemporaryRedirect(f"http://{elsewhere}/blob")

        async with serving(registry) as host:
            with pytest.raises(AccessRefused, match=f"redirects .* to {elsewhere}"):
                await store.objects(layer(host, digest_of(b"x")), login(Login(NAME, PASSWORD)))
    assert received == [""]


async def test_thousands_who_want_one_layer_cause_one_download() -> None:
    async with blob_server() as server:
        wanted = layer(server.host, server.hold(packed({"one.yaml": CONFIG_MAP})))
        registries = Registries()
        store = ObjectStore(registries, no_link, max_wait_seconds=60.0)
        found = await asyncio.gather(*(store.objects(wanted, login()) for _ in range(2_000)))
        assert len({id(each.objects) for each in found}) == 1
        assert len(server.asked) == 1
        await registries.close()


async def test_nobody_stands_and_waits_for_what_another_fetches_slowly() -> None:
    asked, go_on = asyncio.Event(), asyncio.Event()

    async def slow(_request: web.Request) -> web.Response:
        asked.set()
        await go_on.wait()
        return web.Response(body=CONFIG_MAP)

    registries = Registries()
    store = ObjectStore(registries, no_link, max_wait_seconds=0.2)
    async with serving(slow) as host, asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        wanted = layer(host, digest_of(CONFIG_MAP.encode()))
        first = tasks.create_task(store.objects(wanted, login()))
        await asked.wait()
        with pytest.raises(SourceAwaited, match="which takes long"):
            await store.objects(wanted, login())
        store.max_wait_seconds = 600.0  # of which no second is needed any more
        with pytest.raises(SourceAwaited):
            await store.objects(wanted, login())
        go_on.set()
        assert names_in(await first) == ["one"]
        assert names_in(await store.objects(wanted, login())) == ["one"]
    await registries.close()


def tar_with(member: tarfile.TarInfo) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        archive.addfile(member, io.BytesIO(b"x" * member.size))
    return buffer.getvalue()


def member(name: str, kind: bytes = tarfile.REGTYPE) -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, "/etc/passwd"
    return made


BOMB_LEVELS = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9))
BAD_LAYERS = {
    "truncated gzip": (packed({"one.yaml": CONFIG_MAP})[:-40], LayerTruncated),
    "truncated tar": (gzip.compress(gzip.decompress(packed({"one.yaml": CONFIG_MAP * 30}))[:900]), LayerTruncated),
    "broken gzip": (b"\x1f\x8bnot gzip at all", LayerTruncated),
    "path that climbs": (packed({"../../etc/cron.d/one.yaml": CONFIG_MAP}), ArchiveUnsafe),
    "absolute path": (packed({"/etc/cron.d/one.yaml": CONFIG_MAP}), ArchiveUnsafe),
    "symbolic link": (tar_with(member("one.yaml", tarfile.SYMTYPE)), ArchiveUnsafe),
    "hard link": (tar_with(member("one.yaml", tarfile.LNKTYPE)), ArchiveUnsafe),
    "device": (tar_with(member("one.yaml", tarfile.CHRTYPE)), ArchiveUnsafe),
    "too many files": (packed({f"{n}.txt": "" for n in range(1_001)}), LayerTooLarge),
    "gzip bomb": (None, LayerTooLarge),  # made by its test: each worker imports this
    "alias bomb": (f"a0: &a0 [1, 2, 3]\n{BOMB_LEVELS}".encode(), ObjectsInvalid),
    "alias of itself": (b"a: &a [*a]\n", ObjectsInvalid),
    "no objects": (b"just a text", ObjectsInvalid),
    "nothing": (b"# nothing here\n---\n{}\n", ObjectsInvalid),
    "files of other names": (packed({"one.txt": CONFIG_MAP, "two.txt": CONFIG_MAP}), ObjectsInvalid),
    "no YAML": (b"a: [", ObjectsInvalid),
    "bytes": (bytes(range(128, 256)), ObjectsInvalid),
}


@pytest.mark.parametrize("name", BAD_LAYERS)
async def test_bad_layer_is_refused_by_its_name(store: ObjectStore, name: str) -> None:
    content, expected = BAD_LAYERS[name]
    if content is None:
        content = gzip.compress(gzip.compress(b"\0" * 400_000_000, 1) + b"\0" * 40_000_000)
    async with blob_server() as server:
        with pytest.raises(expected):
            await store.objects(layer(server.host, server.hold(content)), login())


async def test_layer_with_another_digest_is_refused(store: ObjectStore) -> None:
    async with blob_server() as server:
        promised = digest_of(b"this")
        server.blobs[promised] = b"that"
        with pytest.raises(DigestMismatch, match=digest_of(b"that")):
            await store.objects(layer(server.host, promised), login())


async def silent(_request: web.Request) -> web.Response:
    await asyncio.sleep(60)
    return web.Response()


async def busy(_request: web.Request) -> web.Response:
    return web.Response(status=429, headers={"Retry-After": "77"})


async def endless(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse()
    await response.prepare(request)
    for _ in range(400):
        await response.write(b"x" * 65536)
    return response


async def cut_off(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers={"Content-Length": "1000"})
    await response.prepare(request)
    await response.write(b"x" * 10)
    if request.transport is not None:
        request.transport.close()
    return response


async def led_astray(_request: web.Request) -> web.Response:
    raise web.HTTPTemporaryRedirect("http://registry.example.com/blob")


async def in_circles(request: web.Request) -> web.Response:
    raise web.HTTPTemporaryRedirect(str(request.url))


async def forbidden(_request: web.Request) -> web.Response:
    return web.Response(status=403)


async def broken(_request: web.Request) -> web.Response:
    return web.Response(status=503)


FAULTS: dict[str, tuple[Handler, type[SourceError]]] = {
    "silent": (silent, SourceUnreachable),
    "429": (busy, RegistryBusy),
    "endless": (endless, LayerTooLarge),
    "cut off": (cut_off, LayerTruncated),
    "redirected to plain HTTP": (led_astray, SourceUnreachable),
    "redirected in circles": (in_circles, SourceUnreachable),
    "403": (forbidden, AccessRefused),
    "503": (broken, SourceUnreachable),
}


@pytest.mark.parametrize("name", FAULTS)
async def test_fault_of_a_registry_is_reported_by_its_name(store: ObjectStore, name: str) -> None:
    handler, expected = FAULTS[name]
    if handler is silent:
        store.registries.timeout_seconds = 1.0
    async with serving(handler) as host:
        with pytest.raises(expected) as raised:
            await store.objects(layer(host, digest_of(b"x")), login())
    if isinstance(raised.value, RegistryBusy):
        assert raised.value.again_after_seconds == 77


async def test_registry_that_is_not_there_is_unreachable(store: ObjectStore) -> None:
    with pytest.raises(SourceUnreachable, match="can't be reached"):
        await store.objects(layer("127.0.0.1:1", digest_of(b"x")), login())


async def test_what_failed_is_not_asked_again_by_the_next_but_after_a_while() -> None:
    now = [0.0]
    async with blob_server() as server:
        registries = Registries()
        store = ObjectStore(registries, no_link, clock=lambda: now[0])
        wanted = layer(server.host, digest_of(CONFIG_MAP.encode()))
        for _ in range(3):
            with pytest.raises(LayerNotFound):
                await store.objects(wanted, login())
        assert len(server.asked) == 1
        server.hold(CONFIG_MAP.encode())
        now[0] = 20.0
        assert names_in(await store.objects(wanted, login())) == ["one"]
        await registries.close()


async def test_wrong_credentials_of_one_keep_nobody_from_using_the_right_ones(store: ObjectStore) -> None:
    async def registry(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") == Login(NAME, PASSWORD).basic:
            return web.Response(body=CONFIG_MAP)
        return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="modules"'})

    async with serving(registry) as host:
        wanted = layer(host, digest_of(CONFIG_MAP.encode()))
        with pytest.raises(AccessRefused):
            await store.objects(wanted, login(Login(NAME, "wrong")), "theirs")
        assert names_in(await store.objects(wanted, login(Login(NAME, PASSWORD)), "ours")) == ["one"]


async def test_file_behind_a_link_that_has_another_digest_is_refused() -> None:
    now, texts = [0.0], [OTHER_MAP, CONFIG_MAP]

    async def fetch(_link: str) -> str:
        return texts.pop(0)

    store = ObjectStore(Registries(), fetch, clock=lambda: now[0])
    digest = f"sha256:{hashlib.sha256(CONFIG_MAP.encode()).hexdigest()}"
    link = source_in(msgspec.Raw(msgspec.json.encode({"url": "https://example.com/module.yaml", "digest": digest})))
    for now[0] in (0.0, 500.0):
        with pytest.raises(LinkChanged, match=digest):
            await store.objects(link, login())
    assert texts == [CONFIG_MAP]
    now[0] = 700.0
    assert names_in(await store.objects(link, login())) == ["one"]


@pytest.mark.parametrize(
    "source",
    [
        b"[]",
        b"{}",
        b'{"url": "http://example.com/module.yaml"}',
        b'{"url": "file:///etc/passwd"}',
        b'{"url": "https://["}',
        b'{"url": "https://example.com/module.yaml"}',
        b'{"url": "https://example.com/module.yaml", "digest": "latest"}',
        b'{"type": "oci-ref", "repo": "[", "name": "b", "ref": "sha256:' + b"0" * 64 + b'"}',
        b'{"type": "helm-chart", "repo": "r.example.com/a", "name": "b", "ref": "1"}',
        b'{"type": "oci-ref", "repo": "r.example.com/a", "name": "b", "ref": "latest"}',
        b'{"type": "oci-ref", "repo": "r.example.com/a", "name": "b", "ref": 7}',
        b'{"type": "oci-ref", "repo": "r.example.com/a", "name": "../b", "ref": "sha256:' + b"0" * 64 + b'"}',
        b'{"type": "oci-ref", "repo": "http://r.example.com/a", "name": "b", "ref": "sha256:' + b"0" * 64 + b'"}',
        b'{"type": "oci-ref", "repo": "me@r.example.com/a", "name": "b", "ref": "sha256:' + b"0" * 64 + b'"}',
    ],
)
def test_source_that_can_not_be_meant_is_refused(source: bytes) -> None:
    with pytest.raises(SourceInvalid, match=r"spec\.install\.source"):
        source_in(msgspec.Raw(source))
