"""Pushing to registries that ask for tokens, refuse, redirect or lie: what is sent, to whom, and what is reported."""

import asyncio
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest
from aiohttp import web

from kyma_oci import (
    Artifact,
    Blob,
    Login,
    PushRefused,
    Registries,
    SourceError,
    SourceInvalid,
    SourceUnreachable,
    artifact_in,
)
from kyma_oci.limits import MAX_BYTES, MAX_DETAIL_BYTES
from kyma_oci.packing import manifest_of
from kyma_oci.problems import AccessRefused, LayerTooLarge, RegistryBusy
from kyma_oci.registries import upload_url
from tests.serving import serving

LOGIN = Login("pusher", "keep out")
CONFIG, LAYER = Blob(b"{}", "application/json"), Blob(b"layer", "application/x-tar")


@dataclass
class TokenRegistry:
    """A registry that grants a token for reading and another for writing; `answers` replace its own by the method."""

    blobs: dict[str, bytes] = field(default_factory=dict)
    answers: dict[str, web.Response] = field(default_factory=dict)
    received: list[tuple[str, str, str]] = field(default_factory=list)

    async def answer(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        self.received.append((request.method, request.path, authorization))
        if request.path == "/token":
            return web.json_response({"token": request.query["scope"].rpartition(":")[2]})
        needed = "pull" if request.method == "HEAD" else "pull,push"
        if authorization.removeprefix("Bearer ") not in {needed, "pull,push"}:
            scope = f"repository:modules/one:{needed}"
            challenge = f'Bearer realm="http://{request.host}/token",service="modules",scope="{scope}"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        if request.method in self.answers:
            return self.answers[request.method]
        return await self._accept(request)

    async def _accept(self, request: web.Request) -> web.Response:
        if request.method == "HEAD":
            return web.Response(status=200 if request.path.rpartition("/")[2] in self.blobs else 404)
        if request.method == "POST":
            return web.Response(status=202, headers={"Location": "/upload?state=a%2Bb%3D"})
        content = await request.read()
        if request.path == "/upload":
            assert request.query["state"] == "a+b="
            self.blobs[request.query["digest"]] = content
        else:
            self.blobs[request.path.rpartition("/")[2]] = content
        return web.Response(status=201)

    def requests(self, method: str) -> list[str]:
        return [path for each, path, _ in self.received if each == method]


async def push(host: str, *layers: Blob, login: Login | None = LOGIN) -> str:
    registries = Registries()
    try:
        return await registries.push(Artifact("http", host, "modules/one", "1.0.0"), CONFIG, layers, login)
    finally:
        await registries.close()


async def test_blobs_and_manifest_are_pushed_with_a_token_for_writing() -> None:
    registry = TokenRegistry()
    async with serving(registry.answer) as host:
        digest = await push(host, LAYER)

    manifest = manifest_of(CONFIG, (LAYER,))
    assert registry.blobs == {
        CONFIG.digest: CONFIG.content,
        LAYER.digest: LAYER.content,
        "1.0.0": manifest.content,
    }
    assert digest == manifest.digest
    tokens = [sent for method, path, sent in registry.received if path == "/token"]
    assert tokens == [LOGIN.basic] * 2  # one to read, and one to write, which is kept
    assert {path for _, path, sent in registry.received if sent == LOGIN.basic} == {"/token"}


async def test_upload_whose_token_has_expired_is_sent_again_whole() -> None:
    registry, expired = TokenRegistry(), [True]

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/upload" and expired:
            expired.pop()
            await request.read()
            challenge = f'Bearer realm="http://{request.host}/token",scope="repository:modules/one:pull,push"'
            return web.Response(status=401, headers={"WWW-Authenticate": challenge})
        return await registry.answer(request)

    async with serving(answer) as host:
        await push(host, LAYER)

    assert registry.blobs[CONFIG.digest] == CONFIG.content
    assert len(registry.requests("GET")) == 3  # tokens: to read, to write, and the new one


async def test_blob_that_the_repository_has_is_not_uploaded_again() -> None:
    registry = TokenRegistry(blobs={CONFIG.digest: CONFIG.content, LAYER.digest: LAYER.content})
    async with serving(registry.answer) as host:
        await push(host, LAYER)

    assert registry.requests("POST") == []
    assert "/upload" not in registry.requests("PUT")


async def test_blob_that_the_registry_keeps_in_a_storage_elsewhere_is_not_uploaded_again() -> None:
    received: list[str] = []

    async def storage(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization", ""))
        return web.Response()

    async with serving(storage) as elsewhere:
        moved = web.Response(status=307, headers={"Location": f"http://{elsewhere}/blob"})
        registry = TokenRegistry(answers={"HEAD": moved})
        async with serving(registry.answer) as host:
            await push(host)

    assert received == [""]
    assert registry.requests("POST") == []


@pytest.mark.parametrize(
    "location",
    [
        "http://registry.example.com/upload",
        "https://127.0.0.1.example.com/",
        "https://{host}/upload",
        "http://{name}:1/upload",
        "http://somebody@{host}/upload",
        "http://{name}:port/upload",
        "http://[/upload",
        "ftp://{host}/upload",
        "",
        None,
    ],
)
async def test_nothing_is_uploaded_but_to_the_registry_itself(location: str | None) -> None:
    registry = TokenRegistry()
    async with serving(registry.answer) as host:
        headers = {} if location is None else {"Location": location.format(host=host, name=host.partition(":")[0])}
        registry.answers["POST"] = web.Response(status=202, headers=headers)
        with pytest.raises(SourceError, match="upload"):
            await push(host)

    assert registry.requests("PUT") == []


@pytest.mark.parametrize("port", ["", ":443"])
async def test_default_port_may_be_said_or_left_out(port: str) -> None:
    layer = artifact_in("https://registry.example.com", "modules/one", "1.0.0").layer(LAYER.digest)
    assert upload_url(layer, f"https://Registry.example.com{port}/upload").endswith(f"/upload?digest={LAYER.digest}")


async def test_redirect_to_another_port_or_without_tls_gets_no_credentials() -> None:
    received: list[str] = []

    async def elsewhere(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization", ""))
        return web.Response(status=404)

    async with serving(elsewhere) as other:
        moved = web.Response(status=307, headers={"Location": f"http://{other}/blob"})
        async with serving(TokenRegistry(answers={"HEAD": moved}).answer) as host:
            await push(host)

    assert set(received) == {""}


@pytest.mark.parametrize(
    "answer",
    [
        b"no JSON",
        b"[]",
        b"",
        b"\xff",
        b'{"token": 1}',
        b"[" * 5000,
        b'{"token": "a\\r\\nX-Injected: 1"}',
        b'{"token": "\\ud800"}',
        b"{}",
        b'{"token": "\xc3\xa9"}',
    ],
)
async def test_token_that_is_none_is_an_error_of_the_registry(answer: bytes) -> None:
    async def registry(request: web.Request) -> web.Response:
        if request.path == "/token":
            return web.Response(body=answer)
        challenge = f'Bearer realm="http://{request.host}/token"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    async with serving(registry) as host:
        with pytest.raises(SourceUnreachable, match="token"):
            await push(host)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"WWW-Authenticate": ""},
        {"WWW-Authenticate": "Bearer"},
        {"WWW-Authenticate": 'Bearer realm=""'},
        {"WWW-Authenticate": 'Bearer realm="http://["'},
        {"WWW-Authenticate": 'Bearer realm="http://127.0.0.1:port/"'},
        {"WWW-Authenticate": 'Bearer realm="/token"'},
        {"WWW-Authenticate": 'Digest realm="x"'},
        {"WWW-Authenticate": 'Bearer realm="http://127.0.0.1:99999/"'},
    ],
)
async def test_challenge_that_is_none_is_an_error_of_the_registry(headers: dict[str, str]) -> None:
    async def registry(_: web.Request) -> web.Response:
        return web.Response(status=401, headers=headers)

    async with serving(registry) as host:
        with pytest.raises(SourceError):
            await push(host)


async def test_nothing_that_is_pushed_follows_a_redirect() -> None:
    received: list[str] = []

    async def curious(request: web.Request) -> web.Response:
        received.append(request.path)
        return web.Response(status=202, headers={"Location": "/upload"})

    async with serving(curious) as elsewhere:
        moved = web.Response(status=307, headers={"Location": f"http://{elsewhere}/"})
        async with serving(TokenRegistry(answers={"POST": moved}).answer) as host:
            with pytest.raises(PushRefused, match="answers 307 to POST"):
                await push(host)

    assert received == []


async def test_reason_of_a_refusal_is_reported_within_bounds() -> None:
    text = "MANIFEST_INVALID x\x1b[2J\n" + "x" * 100_000
    async with serving(TokenRegistry(answers={"PUT": web.Response(status=400, text=text)}).answer) as host:
        with pytest.raises(PushRefused, match=r"answers 400 to PUT .*: MANIFEST_INVALID x") as raised:
            await push(host)

    assert len(str(raised.value)) < MAX_DETAIL_BYTES + 300
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("status", "expected"), [(401, AccessRefused), (403, AccessRefused), (429, RegistryBusy), (503, PushRefused)]
)
async def test_refusal_has_the_reason_of_its_status(status: int, expected: type[Exception]) -> None:
    async with serving(TokenRegistry(answers={"POST": web.Response(status=status)}).answer) as host:
        with pytest.raises(expected, match=str(status)):
            await push(host)


async def test_what_nobody_could_pull_is_not_pushed() -> None:
    registry = TokenRegistry()
    async with serving(registry.answer) as host:
        with pytest.raises(LayerTooLarge, match="more than 16777216 bytes"):
            await push(host, Blob(bytes(MAX_BYTES + 1), "application/x-tar"))
        await push(host, Blob(bytes(MAX_BYTES), "application/x-tar"))


async def test_registry_that_does_not_answer_a_push_is_unreachable() -> None:
    registries, over = Registries(timeout_seconds=0.2), asyncio.Event()

    async def silent(_: web.Request) -> web.Response:
        await over.wait()
        return web.Response()

    async with serving(silent) as host:
        with pytest.raises(SourceUnreachable, match=r"did not accept .* within 0\.2 s"):
            await registries.push(Artifact("http", host, "modules/one", "1.0.0"), CONFIG, ())
        over.set()
    await registries.close()


async def test_registry_that_hangs_leaves_places_to_others() -> None:
    registries, reached, over, content = Registries(), asyncio.Event(), asyncio.Event(), b"content"

    async def silent(_: web.Request) -> web.Response:
        reached.set()
        await over.wait()
        return web.Response(body=content)

    async def quick(_: web.Request) -> web.Response:
        return web.Response(body=content)

    async with serving(silent) as hanging, serving(quick) as host:
        waiting = [asyncio.create_task(registries.pull(artifact_at(hanging, f"{each}"))) for each in range(20)]
        await reached.wait()
        async with asyncio.timeout(60):
            assert await registries.pull(artifact_at(host, "1.0.0")) == content
        over.set()
        await asyncio.gather(*waiting)
    await registries.close()


def artifact_at(host: str, tag: str) -> Artifact:
    return Artifact("http", host, "modules/one", tag)


@pytest.mark.parametrize("host", ["docker.io", "index.docker.io", "registry-1.docker.io"])
def test_images_of_docker_hub_are_requested_where_its_api_is(host: str) -> None:
    artifact = artifact_in(host, "library/x", "1.0.0")
    layer = artifact.layer(f"sha256:{'0' * 64}")
    for url in (artifact.url, layer.url, layer.uploads_url):
        assert url.startswith("https://registry-1.docker.io/v2/library/x/")
    assert artifact.repository == f"{host}/library/x"


def test_plain_http_to_another_machine_is_for_those_who_ask_for_it() -> None:
    with pytest.raises(SourceInvalid, match="needs https"):
        artifact_in("http://registry.internal:5000", "modules/one", "1.0.0")
    artifact = artifact_in("http://registry.internal:5000", "modules/one", "1.0.0", plain_http=True)
    assert urlsplit(artifact.url).scheme == "http"


async def test_registry_with_plain_http_leads_to_no_other_machine_without_tls() -> None:
    async def registry(_: web.Request) -> web.Response:
        challenge = 'Bearer realm="http://registry.example.com/token"'
        return web.Response(status=401, headers={"WWW-Authenticate": challenge})

    async with serving(registry) as host:
        with pytest.raises(SourceUnreachable, match="which is not https"):
            await push(host)
