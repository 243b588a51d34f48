"""The proxies of the environment: as Go reads them, since kubectl and Helm do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from kube_runtime import Client, ClusterUnreachable, KubeconfigInvalid, KubeconfigPolicy
from kube_runtime.client.kubeconfig import connection_from_kubeconfig
from kube_runtime.client.proxies import proxy_of_environment
from kyma_fleet_page.oidc import IdentityProvider, ProviderFailed, SignInAttempt
from kyma_oci import Artifact, Registries, SourceUnreachable
from lifecycle_manager.module_sources.downloads import DownloadFailed, Downloads
from lifecycle_manager.options.endpoints import OidcSettings
from tests.kubeconfigs import kubeconfig

PROXY, OTHER = "http://user:secret@proxy.example:3128", "https://other.example"
SERVER = "https://k.example:6443"


@pytest.mark.parametrize(
    ("environment", "proxy"),
    [
        ({"HTTPS_PROXY": PROXY}, PROXY),
        ({"https_proxy": PROXY}, PROXY),
        ({"HTTPS_PROXY": "proxy.example:3128"}, "http://proxy.example:3128"),
        ({"HTTPS_PROXY": OTHER, "HTTP_PROXY": PROXY}, OTHER),
        ({"HTTP_PROXY": PROXY, "ALL_PROXY": PROXY}, None),
    ],
)
def test_proxy_is_that_of_the_scheme(environment: dict[str, str], proxy: str | None) -> None:
    assert proxy_of_environment(SERVER, environment) == proxy


@pytest.mark.parametrize(
    ("url", "direct", "others"),
    [
        (SERVER, "* K.EXAMPLE example .example *.example k.example:6443", ".k.example *.k.example ample . *. [ :"),
        (SERVER, "other.example,k.example", "k.example:443 k.example:x"),
        ("https://10.1.2.3", "10.0.0.0/8 10.1.2.3 10.1.2.3:443", "10.0.0.0/16 fd00::/8 10.1.2.3:6443 10.1.2.*"),
        ("https://[fd00::1]:6443", "fd00::/8 fd00::1 [fd00::1]:6443", "fd01::/16 10.0.0.0/8 [fd00::1]:443"),
        *((f"https://{each}:6443", "none.example", "") for each in ("127.0.0.1", "localhost", "[::1]")),
    ],
)
def test_no_proxy_means_what_it_means_to_go(url: str, direct: str, others: str) -> None:
    for excepted in direct.split():
        for variable in ("NO_PROXY", "no_proxy"):
            assert proxy_of_environment(url, {"HTTPS_PROXY": PROXY, variable: f"none.example, {excepted}"}) is None
    for excepted in others.split():
        assert proxy_of_environment(url, {"HTTPS_PROXY": PROXY, "NO_PROXY": f"{excepted},"}) == PROXY


async def test_proxy_is_that_of_the_kubeconfig_or_else_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", PROXY)
    connection = await connection_from_kubeconfig(kubeconfig(), KubeconfigPolicy.strict())
    assert connection.proxy == PROXY
    assert "secret" not in repr(connection)
    monkeypatch.setenv("NO_PROXY", ".example")
    assert (await connection_from_kubeconfig(kubeconfig(), KubeconfigPolicy.strict())).proxy is None
    document = kubeconfig(**{"proxy-url": OTHER})
    assert (await connection_from_kubeconfig(document, KubeconfigPolicy.permissive())).proxy == OTHER


@pytest.mark.parametrize("of_kubeconfig", [True, False])
@pytest.mark.parametrize("proxy", ["socks5://u:secret@p.example:1080", "//p.example", "http://", "http://p:0"])
async def test_proxy_that_is_spoken_to_in_no_way_or_left_out_is_invalid(
    monkeypatch: pytest.MonkeyPatch, proxy: str, of_kubeconfig: bool
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    document = kubeconfig(**({"proxy-url": proxy} if of_kubeconfig else {}))
    source = "proxy-url in the kubeconfig" if of_kubeconfig else "HTTPS_PROXY"
    with pytest.raises(KubeconfigInvalid, match=f"^{source} is no http or https address") as refused:
        await connection_from_kubeconfig(document, KubeconfigPolicy.permissive())
    assert "secret" not in str(refused.value)


@asynccontextmanager
async def refusing_proxy() -> AsyncIterator[tuple[str, list[bytes]]]:
    """Run a proxy that leads nowhere; yield its address, and the hosts that it was asked for."""
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
        writer.close()

    async with await asyncio.start_server(refuse, "127.0.0.1", 0) as server:
        yield f"http://user:secret@127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.mark.parametrize("excepted", ["", "10.0.0.0/8,fd00::/8", "[fd00::1]:443"])
async def test_links_and_the_identity_provider_are_reached_by_the_same_proxy(
    monkeypatch: pytest.MonkeyPatch, excepted: str
) -> None:
    monkeypatch.setenv("NO_PROXY", excepted)
    page = IdentityProvider(OidcSettings(issuer="https://id.example", client_id="page"))
    async with refusing_proxy() as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        with pytest.raises(DownloadFailed, match="407 Proxy Authentication Required") as failed:
            await Downloads().text("https://links.example/module.yaml")
        with pytest.raises(ProviderFailed):
            await page.address_for(SignInAttempt.towards("/"))
    assert asked == [b"links.example:443", b"id.example:443"]
    assert "secret" not in str(failed.value)


async def test_link_to_a_network_that_no_proxy_names_is_reached_directly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_PROXY", "192.0.2.0/24")
    async with refusing_proxy() as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        with pytest.raises(DownloadFailed):
            await Downloads(timeout_seconds=0.1).text("https://192.0.2.1/module.yaml")
    assert asked == []


async def test_error_names_the_proxy_and_never_its_password(monkeypatch: pytest.MonkeyPatch) -> None:
    async with refusing_proxy() as (proxy, asked):
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        async with await Client.from_kubeconfig(kubeconfig()) as client:
            with pytest.raises(ClusterUnreachable, match="the proxy answered 407 Proxy Authentication") as refused:
                await client.server_version()
        registries = Registries(proxy_of=proxy_of_environment)
        with pytest.raises(SourceUnreachable, match="its proxy answered 407 Proxy Authentication") as unreachable:
            await registries.pull(Artifact("https", "registry.example", "modules/one", "1.0.0"))
        await registries.close()
    assert "secret" not in f"{refused.value} {unreachable.value}"
    assert asked == [b"k.example:6443", b"registry.example:443"]

    monkeypatch.setenv("HTTPS_PROXY", "http://user:secret@127.0.0.1:1")
    async with await Client.from_kubeconfig(kubeconfig()) as client:
        where = r"^no response from the proxy 127\.0\.0\.1:1 of k\.example:6443: Connection refused$"
        with pytest.raises(ClusterUnreachable, match=where):
            await client.server_version()
