"""A client proves who it is, and is told apart from a stranger; so is a server.

Real servers alone have users and TLS.
"""

import asyncio
from contextlib import aclosing
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from kube_runtime import Client, ClientOptions, ClusterUnreachable, KubeconfigPolicy, Unauthorized, load_yaml
from kyma_local.joining import join
from tests.kinds import NAMESPACES
from tests.kubeconfigs import kubeconfig


async def test_wrong_token_is_unauthorized(client: Client) -> None:
    document = kubeconfig({"token": "wrong"}, server=client.server, **{"insecure-skip-tls-verify": True})
    policy = KubeconfigPolicy(allow_insecure=True)
    async with await Client.from_kubeconfig(document, policy=policy) as stranger:
        with pytest.raises(Unauthorized):
            await stranger.list(NAMESPACES)


async def test_certificate_of_another_ca_is_not_trusted(client: Client) -> None:
    async with await Client.from_kubeconfig(kubeconfig({}, server=client.server)) as stranger:
        with pytest.raises(ClusterUnreachable, match=r"^no response from [\d.:]+: .*certificate verify failed"):
            await stranger.list(NAMESPACES)


async def test_server_that_is_not_there_is_unreachable() -> None:
    document = kubeconfig({}, server="https://127.0.0.1:1")
    async with await Client.from_kubeconfig(document, options=ClientOptions(timeout_seconds=2)) as nobody:
        with pytest.raises(ClusterUnreachable, match=r"^no response from 127\.0\.0\.1:1: Connection refused$"):
            await nobody.server_version()


async def test_requests_and_watches_go_by_the_proxy_of_the_environment(
    kcp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append((await reader.readuntil(b"\r\n\r\n")).split()[1])
        far_side = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await join((reader, writer), far_side)

    document = load_yaml(await asyncio.to_thread(kcp.read_text))
    cluster = document["clusters"][0]["cluster"]
    port = urlsplit(cluster["server"]).port
    cluster["server"] = f"https://kubernetes.default.svc:{port}"
    async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", f"127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        async with await Client.from_kubeconfig(document, policy=KubeconfigPolicy.permissive()) as client:
            listed = await client.list(NAMESPACES)
            async with aclosing(client.watch(NAMESPACES)) as events:
                assert (await anext(events)).type == "ADDED"
    assert listed.items
    assert set(asked) == {f"kubernetes.default.svc:{port}".encode()}
