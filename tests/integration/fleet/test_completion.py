"""Names completed from a real API server, as a shell asks for them, with all that a kubeconfig may name."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, dump_yaml, load_yaml
from kyma_fleet.cli.completion import SECONDS
from kyma_fleet.listing.kinds import KINDS
from kyma_fleet.listing.names import PATHS, SHORT_NAMES
from lifecycle_manager.contract.resources import KYMAS, MODULE_ROLLOUTS
from lifecycle_manager_api import names
from tests.integration.fleet.conftest import identity, put_kyma
from tests.klm import run_klm_process
from tests.unit.service.test_help import HEAVY, modules_of

ATTEMPTS = 5
PLUGIN_API = "client.authentication.k8s.io/v1"


@pytest_asyncio.fixture
async def kymas(control_plane: Client) -> AsyncIterator[Client]:
    spec = {"moduleName": "tab", "channel": "fast", "version": "1.0.0", "revision": 1}
    spec |= {"strategy": {"waves": [{"name": "all", "kymaSelector": {}}]}}
    for name in ("tab-one", "tab-two", "other"):
        await put_kyma(control_plane, name, {"state": "Ready"})
        await control_plane.apply(MODULE_ROLLOUTS, name, {"spec": spec}, names.KCP_NAMESPACE, field_manager="test")
    yield control_plane
    for name in ("tab-one", "tab-two", "other"):
        await control_plane.delete(KYMAS, name, names.KCP_NAMESPACE)
        await control_plane.delete(MODULE_ROLLOUTS, name, names.KCP_NAMESPACE)


def typed(line: str) -> dict[str, Any]:
    """Return the environment in which bash asks for the last word of a line."""
    return {"_KLM_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}


def changed(kubeconfig: Path, file: Path, *, user: Any = None, **cluster: Any) -> Path:
    """Write a kubeconfig with another user, or another way to its cluster."""
    document = load_yaml(kubeconfig.read_text())
    document["clusters"][0]["cluster"].update(cluster)
    document["contexts"].append({"name": "nowhere", "context": {"cluster": "none", "user": "none"}})
    if user is not None:
        document["users"][0]["user"] = user
    file.write_text(dump_yaml(document))
    return file


async def is_offered(kubeconfig: Path, line: str) -> None:
    async def ask() -> str:
        return (await run_klm_process(kubeconfig, **typed(line))).text

    await names_are_printed(ask)


async def names_are_printed(ask: Callable[[], Awaitable[str]]) -> None:
    """Assert that the names are offered; asked again only where a busy machine took longer than completion waits."""
    for _ in range(ATTEMPTS):
        began = time.monotonic()
        offered = (await ask()).split()
        if offered or time.monotonic() - began < SECONDS:
            break
    assert offered == ["tab-one", "tab-two"]


def test_kinds_are_where_completion_asks_for_them() -> None:
    assert {each.name for each in KINDS} == set(SHORT_NAMES)
    assert {each.name: each.resource.path(each.namespace) for each in KINDS if each.name in PATHS} == PATHS
    assert set(SHORT_NAMES) - set(PATHS) == {"modules"}


@pytest.mark.parametrize(
    "line",
    [
        "klm get kyma tab",
        "klm explain tab",
        "klm get --state Error ky tab",
        "klm get manifests --kyma tab",
        "klm rollout approve tab",
    ],
)
async def test_names_are_completed(kymas: Client, kcp: Path, tmp_path: Path, line: str) -> None:
    await is_offered(await identity(kymas, kcp, tmp_path, "klm-viewer"), line)


async def test_kubeconfig_and_context_of_the_command_line_are_asked(kymas: Client, kcp: Path, tmp_path: Path) -> None:
    file = changed(kcp, tmp_path / "config")
    nowhere = tmp_path / "nowhere"
    await is_offered(nowhere, f"klm get --kubeconfig {file} kymas tab")
    elsewhere = await run_klm_process(file, **typed("klm get --context nowhere kymas tab"))
    assert (elsewhere.text.strip(), elsewhere.errors) == ("", "")


async def test_token_in_a_file_and_name_of_the_server_are_used(kymas: Client, kcp: Path, tmp_path: Path) -> None:
    viewer = await identity(kymas, kcp, tmp_path, "klm-viewer")
    token = tmp_path / "token"
    token.write_text(load_yaml(viewer.read_text())["users"][0]["user"]["token"])
    server = load_yaml(viewer.read_text())["clusters"][0]["cluster"]["server"].replace("127.0.0.1", "localhost")
    file = changed(
        viewer, tmp_path / "file", user={"tokenFile": "token"}, server=server, **{"tls-server-name": "127.0.0.1"}
    )
    await is_offered(file, "klm get kymas tab")
    wrong = changed(file, tmp_path / "wrong", **{"tls-server-name": "somebody.example"})
    refused = await run_klm_process(wrong, **typed("klm get kymas tab"))
    assert (refused.text.strip(), refused.errors) == ("", "")


async def test_login_by_a_plugin_is_used(kymas: Client, kcp: Path, tmp_path: Path) -> None:
    viewer = await identity(kymas, kcp, tmp_path, "klm-viewer")
    token = load_yaml(viewer.read_text())["users"][0]["user"]["token"]
    answer = json.dumps({"apiVersion": PLUGIN_API, "kind": "ExecCredential", "status": {"token": token}})
    command = {"apiVersion": PLUGIN_API, "command": "echo", "args": [answer], "interactiveMode": "Never"}
    file = changed(viewer, tmp_path / "plugin", user={"exec": command})
    await is_offered(file, "klm get kymas tab")


async def test_proxy_with_a_login_is_used(kymas: Client, kcp: Path, tmp_path: Path) -> None:
    asked: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = asked[-1].split()[1].decode().rpartition(":")
        server_reader, server_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(pump(reader, server_writer))
            tasks.create_task(pump(server_reader, writer))

    async with await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy:
        port = proxy.sockets[0].getsockname()[1]
        file = changed(kcp, tmp_path / "proxied", **{"proxy-url": f"http://me:secret@127.0.0.1:{port}"})
        await is_offered(file, "klm get kymas tab")
    assert b"Proxy-Authorization: Basic bWU6c2VjcmV0" in asked[0]


async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while chunk := await reader.read(1 << 16):
        writer.write(chunk)
        await writer.drain()
    writer.close()


async def test_completion_of_names_imports_no_client(kymas: Client, kcp: Path) -> None:
    environment = {**typed("klm get kyma tab"), "KUBECONFIG": str(kcp)}

    async def ask() -> str:
        printed, modules = await asyncio.to_thread(modules_of, (), environment)
        assert not (HEAVY - {"kube_runtime"}) & modules
        return printed

    await names_are_printed(ask)
