"""Registries, links and layers of strangers: they expand nothing, cost little, and get no credentials of others."""

import gzip
import os
import ssl
import time
import tracemalloc
import zlib
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import pytest
from aiohttp import web

from kube_runtime import dump_yaml
from kyma_certs import LeafRequest, Usage, create_ca, issue
from kyma_oci import (
    ANY_HOST,
    AllowedHosts,
    DockerConfig,
    Layer,
    Login,
    Registries,
    SourceError,
    SourceUnreachable,
    login_in,
    text_in,
)
from kyma_oci.limits import MAX_MEMBERS
from kyma_oci.problems import AccessRefused, LayerTooLarge, RegistryBusy, SourceNotAllowed
from lifecycle_manager.module_sources.downloads import DownloadFailed, Downloads
from lifecycle_manager.module_sources.store import ObjectStore
from tests.registries import digest_of, no_link
from tests.serving import Handler
from tests.serving import serving as serve_any

MANY = bytes(64 * 1024 * 1024)
ENCODED: dict[str, Callable[[], bytes]] = {  # made when asked for: each worker imports this
    "gzip": lambda: gzip.compress(MANY, 9),
    "gzip, gzip": lambda: gzip.compress(gzip.compress(MANY, 9), 9),
    "deflate": lambda: zlib.compress(MANY, 9),
}
CONFIG_MAP = dump_yaml({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}}).encode()
OURS, THEIRS = Login("ours", "secret"), Login("theirs", "guessed")
EMPTY_MEMBER = gzip.compress(b"", 9)
serving = partial(serve_any, name="localhost")


@pytest.fixture
def certificate(tmp_path: Path) -> tuple[ssl.SSLContext, ssl.SSLContext]:
    """The contexts of a server on localhost, and of clients that trust it."""
    now = datetime.now(UTC)
    ca = create_ca("test", lifetime=timedelta(days=1), now=now)
    request = LeafRequest(common_name="localhost", dns_names=("localhost",), usages=frozenset({Usage.SERVER}))
    pair = issue(ca, request, now=now)
    for name, content in (("ca", ca.certificate_pem), ("crt", pair.certificate_pem), ("key", pair.key_pem)):
        (tmp_path / name).write_bytes(content)
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    server.load_cert_chain(tmp_path / "crt", tmp_path / "key")
    return server, ssl.create_default_context(cafile=str(tmp_path / "ca"))


def layer(scheme: str, host: str, content: bytes = CONFIG_MAP, path: str = "modules/one") -> Layer:
    return Layer(scheme, host, path, digest_of(content))


@pytest.mark.parametrize("encoding", ENCODED)
async def test_link_that_is_compressed_expands_nothing(
    encoding: str, certificate: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    async def answer(_: web.Request) -> web.Response:
        return web.Response(body=ENCODED[encoding](), headers={"Content-Encoding": encoding})

    server, client = certificate
    async with serving(answer, server) as host:
        tracemalloc.start()
        try:
            with pytest.raises(DownloadFailed, match="has the encoding"):
                await Downloads(client).text(f"https://{host}/module.yaml")
            _, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert peak < 4 * 1024 * 1024


async def test_links_and_their_redirects_stay_within_the_allowed_hosts(
    certificate: tuple[ssl.SSLContext, ssl.SSLContext],
) -> None:
    async def answer(request: web.Request) -> web.Response:
        if request.path == "/elsewhere":
            raise web.HTTPFound("https://169.254.169.254/latest/meta-data")
        return web.Response(body=CONFIG_MAP)

    server, client = certificate
    async with serving(answer, server) as host:
        downloads = Downloads(client, allowed=AllowedHosts.of((host,)))
        assert await downloads.text(f"https://{host}/module.yaml") == CONFIG_MAP.decode()
        for link in (f"https://{host}/elsewhere", "https://127.0.0.1/x", f"https://{host}@evil.example.com/"):
            with pytest.raises(DownloadFailed, match="not among the allowed-source-hosts"):
                await downloads.text(link)


@pytest.mark.parametrize(
    ("entry", "allowed", "refused"),
    [
        ("r.example.com", "https://R.example.com:5000/v2", "https://r.example.com.evil.net/"),
        ("r.example.com:443", "https://r.example.com/v2", "https://r.example.com:5000/"),
        ("*.example.com", "https://a.b.example.com/", "https://example.com/"),
        ("*.example.com:5000", "https://a.example.com:5000/", "https://a.example.com/"),
        ("r.example.com", "https://r.example.com./", "https://r.example.com@evil.net/"),
        ("[::1]:5000", "https://[::1]:5000/", "https://[::1]/"),
    ],
)
def test_allowed_hosts(entry: str, allowed: str, refused: str) -> None:
    hosts = AllowedHosts.of((entry,))
    assert hosts.allow(allowed)
    assert not hosts.allow(refused)
    assert AllowedHosts().allow(refused)


@pytest.mark.parametrize("entry", ["", "https://r.example.com", "r.example.com/path", "*", "a b", "*.*.com"])
def test_entry_that_is_no_host_is_refused(entry: str) -> None:
    with pytest.raises(ValueError, match="invalid host"):
        AllowedHosts.of((entry,))


def test_gzip_of_very_many_members_is_refused_at_once() -> None:
    assert text_in(EMPTY_MEMBER * MAX_MEMBERS, "layer") == b""
    with pytest.raises(LayerTooLarge, match="gzip members"):
        text_in(EMPTY_MEMBER * 800_000, "layer")


def test_members_do_not_copy_what_follows_them() -> None:
    """Before, 4,000 empty members in front of 8 MiB copied 32 GiB."""
    large = gzip.compress(os.urandom(8 * 1024 * 1024), 1)

    def seconds(content: bytes) -> float:
        start = time.process_time()
        text_in(content, "layer")
        return time.process_time() - start

    alone = min(seconds(large) for _ in range(3))
    assert min(seconds(EMPTY_MEMBER * 4_000 + large) for _ in range(3)) < 10 * alone


def basic_registry(accepted: Login, received: list[str]) -> Handler:
    async def answer(request: web.Request) -> web.Response:
        received.append(request.headers.get("Authorization", ""))
        if received[-1] == accepted.basic:
            return web.Response(body=CONFIG_MAP)
        return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="modules"'})

    return answer


def using(login: Login | None) -> Callable[[str], Awaitable[Login | None]]:
    async def login_for(_: str) -> Login | None:
        return login

    return login_for


async def test_digest_of_a_private_layer_gives_nobody_access_to_it() -> None:
    received: list[str] = []
    registries = Registries()
    async with serving(basic_registry(OURS, received)) as host:
        private = layer("http", host)
        store = ObjectStore(registries, no_link)
        assert (await store.objects(private, using(OURS), "kcp-system/ours")).objects
        for login, whose in ((None, ""), (THEIRS, "kcp-system/theirs")):
            with pytest.raises(AccessRefused):
                await store.objects(private, using(login), whose)
        assert received.count(OURS.basic) == 1
    async with serving(_not_found) as other:
        with pytest.raises(Exception, match="has no"):
            await store.objects(layer("http", other), using(None), "kcp-system/ours")
    await registries.close()


async def test_session_of_one_login_gives_nobody_else_access() -> None:
    """Gateways in front of a registry answer a login with a cookie, which then counts like the login."""

    async def answer(request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != OURS.basic and request.cookies.get("session") != "ours":
            return web.Response(status=401, headers={"WWW-Authenticate": 'Basic realm="modules"'})
        return web.Response(body=CONFIG_MAP, headers={"Set-Cookie": "session=ours; Path=/"})

    registries = Registries()
    async with serving(answer) as host:
        private = layer("http", host)
        assert await registries.pull(private, OURS) == CONFIG_MAP
        for login in (None, THEIRS):
            with pytest.raises(AccessRefused):
                await registries.pull(private, login)
    await registries.close()


async def test_registry_that_says_to_retry_at_once_is_not_asked_by_each_manifest() -> None:
    received: list[str] = []

    async def answer(request: web.Request) -> web.Response:
        received.append(request.path)
        return web.Response(status=429, headers={"Retry-After": "0"})

    registries = Registries()
    async with serving(answer) as host:
        store = ObjectStore(registries, no_link, clock=lambda: 0.0)
        for _ in range(3):
            with pytest.raises(RegistryBusy):
                await store.objects(layer("http", host), using(None))
    await registries.close()
    assert len(received) == 1


def config(**names: str) -> DockerConfig:
    auths = {server: {"username": name, "password": "p"} for server, name in names.items()}
    return DockerConfig("Secret kcp-system/pull", auths)


def test_login_for_a_path_is_for_nothing_else() -> None:
    scoped = [config(**{"https://r.example.com/team-a": "a", "r.example.com/team-a/private": "private"})]
    assert login_in(scoped, "r.example.com/team-a/module") == Login("a", "p")
    assert login_in(scoped, "r.example.com/team-a/private/module") == Login("private", "p")
    for repository in (
        "r.example.com/team-b/module",
        "r.example.com/team-abc",
        "r.example.com",
        "r.example.org/team-a",
    ):
        assert login_in(scoped, repository) is None
    whole = [config(**{"https://index.docker.io/v1/": "hub", "r.example.com/": "all", "r.example.com/a": "a"})]
    assert login_in(whole, "docker.io/any/module") == Login("hub", "p")
    assert login_in(whole, "r.example.com/b") == Login("all", "p")
    assert login_in(whole, "r.example.com/a") == Login("a", "p")


@pytest.mark.parametrize("way", ["redirect", "realm"])
async def test_registry_with_tls_leads_to_no_plain_http_on_this_machine(
    way: str, certificate: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    received: list[str] = []
    server, client = certificate
    registries = Registries(client)
    async with serving(basic_registry(OURS, received)) as local:

        async def registry(_: web.Request) -> web.Response:
            if way == "redirect":
                raise web.HTTPFound(f"http://{local}/metrics")
            return web.Response(status=401, headers={"WWW-Authenticate": f'Bearer realm="http://{local}/token"'})

        async with serving(registry, server) as host:
            with pytest.raises(SourceUnreachable, match="which is not https"):
                await registries.pull(layer("https", host), OURS)
    assert received == []
    await registries.close()


async def test_registry_leads_to_no_host_that_is_not_allowed() -> None:
    received: list[str] = []
    async with serving(basic_registry(OURS, received)) as elsewhere:

        async def registry(_: web.Request) -> web.Response:
            raise web.HTTPFound(f"http://{elsewhere}/blob")

        async with serving(registry) as host:
            registries = Registries(allowed=AllowedHosts.of((host,)))
            with pytest.raises(SourceNotAllowed, match=elsewhere):
                await registries.pull(layer("http", host), OURS)
            with pytest.raises(SourceNotAllowed, match=r"r\.example\.com"):
                await registries.pull(layer("https", "r.example.com"), OURS)
            await registries.close()
    assert received == []


@pytest.mark.parametrize(
    "target",
    [
        pytest.param("http://user:hidden@r.example.com/blob?signature=hidden", id="without TLS"),
        pytest.param("https://user:hidden@r.example.com/blob?signature=hidden", id="not allowed"),
        pytest.param("https:///blob?signature=hidden", id="no address"),
        pytest.param("https://user:hidden@{host}/elsewhere?signature=hidden", id="needs credentials"),
    ],
)
async def test_error_does_not_show_the_signature_of_a_redirect(
    target: str, certificate: tuple[ssl.SSLContext, ssl.SSLContext]
) -> None:
    """It gives access to the content, and users of all clusters read the error; it is another one at each attempt."""

    async def answer(request: web.Request) -> web.Response:
        if request.path == "/elsewhere":
            return web.Response(status=401)
        raise web.HTTPFound(target.format(host=request.host))

    server, client = certificate
    async with serving(answer, server) as host:
        allowed = AllowedHosts.of((host,)) if "example" in target else ANY_HOST
        registries = Registries(client, allowed=allowed)
        with pytest.raises(SourceError) as refused:
            await registries.pull(layer("https", host), OURS)
        with pytest.raises(DownloadFailed) as failed:
            await Downloads(client, allowed=allowed).text(f"https://{host}/module.yaml")
        await registries.close()
    assert "hidden" not in f"{refused.value} {failed.value}"


async def _not_found(_: web.Request) -> web.Response:
    raise web.HTTPNotFound
