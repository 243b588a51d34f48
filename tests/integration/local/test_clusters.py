"""`klm local` as a user runs it, on real etcd and API servers."""

import asyncio
import base64
import os
import signal
import socket
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import httpx
import pytest
import pytest_asyncio

from kube_runtime import Client, Forbidden, Informer, load_yaml
from kyma_local.claims import holder, scratch_folder
from kyma_local.clusters import LocalCluster, LocalClusters
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.klm import KLM
from tests.waiting import eventually

pytestmark = pytest.mark.xdist_group("local")


class Run(NamedTuple):
    """A run of `klm local up`, and what it said until all was ready."""

    process: "subprocess.Popen[str]"
    output: str
    temporary: Path


@contextmanager
def up(cwd: Path, *options: str) -> Iterator[Run]:
    """Run `klm local up` until it says that all is ready; end it with the block, and with it what a killed one left."""
    command = [str(KLM), "local", "up", *options]
    with (
        TemporaryDirectory(prefix="up-") as temporary,  # not the test's own: a socket's path may have 107 bytes
        subprocess.Popen(
            command,
            cwd=cwd,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "TMPDIR": temporary},
        ) as process,
    ):
        assert process.stdout is not None
        try:
            output = ""
            while "Running until Ctrl-C" not in output:
                line = process.stdout.readline()
                assert line, output
                output += line
            yield Run(process, output, Path(temporary))
        finally:
            process.terminate()


def children_of(folder: Path, program: str = "") -> list[int]:
    """Return the processes whose command lines name a folder, other than `klm` itself; of one program or of all."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal():
            try:
                words = (process / "cmdline").read_bytes().split(b"\0")
            except OSError:
                continue  # ended meanwhile
            if any(str(folder).encode() in word for word in words[1:]) and words[0].endswith(
                program.encode() or (b"etcd", b"kube-apiserver", b"kube-controller-manager")
            ):
                found.append(int(process.name))
    return found


async def a_config_map(kubeconfig: Path, name: str) -> None:
    async with await Client.from_environment(kubeconfig) as client:
        await client.create(CONFIG_MAPS, {"metadata": {"name": name}}, "default", field_manager="test")


async def test_two_runs_in_one_folder_are_separate_and_stopped_separately(tmp_path: Path) -> None:
    with up(tmp_path) as first, up(tmp_path, "--skrs", "0") as second:
        folders = [tmp_path / ".local/clusters", tmp_path / ".local/clusters-2"]
        assert [holder(folder) for folder in folders] == [first.process.pid, second.process.pid]
        for kubeconfig in (folders[0] / "kcp", folders[0] / "skr-1", folders[1] / "kcp"):
            async with await Client.from_environment(kubeconfig / "kubeconfig") as client:
                assert await client.list(NAMESPACES)
        assert f"kubectl --kubeconfig {folders[0]}/skr-1/kubeconfig" in first.output

        def down(*options: str) -> "subprocess.CompletedProcess[str]":
            command: list[str | Path] = [KLM, "local", "down", *options]
            return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)

        refused = await asyncio.to_thread(down)
        assert refused.returncode == 1
        assert "choose one with --dir" in refused.stderr
        assert (await asyncio.to_thread(down, "--dir", str(folders[1]))).returncode == 0
        assert second.process.wait(60) == 0
        assert (await asyncio.to_thread(down)).returncode == 0
        assert first.process.wait(60) == 0
        assert children_of(tmp_path) == []
        assert (await asyncio.to_thread(down)).returncode == 1


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel ends children with their parent on Linux only")
async def test_kill_of_a_run_ends_its_children_and_the_next_deletes_its_scratch_folder(tmp_path: Path) -> None:
    with up(tmp_path, "--dir", str(tmp_path), "--skrs", "0") as run:
        assert len(children_of(tmp_path)) == 3
        scratch = set(run.temporary.iterdir())
        run.process.send_signal(signal.SIGKILL)
        await eventually(lambda: not children_of(tmp_path), what="every child has ended")
        assert set(run.temporary.iterdir()) == scratch != set()
        with scratch_folder("klm-local-", run.temporary) as folder:
            assert list(run.temporary.iterdir()) == [folder]


@pytest.mark.skipif(sys.platform != "linux", reason="looks for the processes in /proc")
async def test_server_that_ends_by_itself_ends_the_run_with_an_error(tmp_path: Path) -> None:
    with up(tmp_path, "--dir", str(tmp_path), "--skrs", "0") as run:
        os.kill(children_of(tmp_path, "kube-apiserver")[0], signal.SIGKILL)
        output, _ = await asyncio.to_thread(run.process.communicate, timeout=240)
    assert run.process.returncode == 1
    assert "kube-apiserver of kcp ended with code -9" in output
    assert "Traceback" not in output


async def test_rbac_is_enforced_and_state_is_kept_across_restarts(tmp_path: Path) -> None:
    async with LocalClusters.start(skrs=0, directory=tmp_path) as clusters:
        await a_config_map(clusters.kcp.admin_kubeconfig, "kept")
        async with await Client.from_environment(clusters.kcp.kubeconfig_for("nobody")) as nobody:
            with pytest.raises(Forbidden, match="nobody"):
                await nobody.list(CONFIG_MAPS, "default")
        await _stop_while_it_is_watched(clusters.kcp)
        await clusters.kcp.start_api_server()
        async with await Client.from_environment(clusters.kcp.admin_kubeconfig) as client:
            assert (await client.get(CONFIG_MAPS, "kept", "default"))["metadata"]["name"] == "kept"
    async with (
        LocalClusters.start(skrs=0, directory=tmp_path) as again,
        await Client.from_environment(again.kcp.admin_kubeconfig) as client,
    ):
        assert (await client.get(CONFIG_MAPS, "kept", "default"))["metadata"]["name"] == "kept"


async def _stop_while_it_is_watched(cluster: LocalCluster) -> None:
    (server,) = (each for each in cluster.children if "apiserver" in each.name)
    async with await Client.from_environment(cluster.admin_kubeconfig) as client:
        informer = Informer(client, NAMESPACES)
        watching = asyncio.create_task(informer.run())
        await informer.wait_synced(30)
        await cluster.stop_api_server()
        watching.cancel()
        await asyncio.wait([watching])
    assert server.returncode == 0, "it waited for the watch to end, and was killed"


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def clusters(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalClusters]:
    async with LocalClusters.start(skrs=0, directory=tmp_path_factory.mktemp("shared") / "clusters") as clusters:
        yield clusters


@pytest.mark.asyncio(loop_scope="session")
async def test_cluster_whose_port_is_in_use_starts_on_another(clusters: LocalClusters) -> None:
    await clusters.kcp.stop()
    with socket.create_server(("127.0.0.1", clusters.kcp.port)) as taken:
        await clusters.kcp.start()
        assert clusters.kcp.port != taken.getsockname()[1]
    async with await Client.from_environment(clusters.kcp.admin_kubeconfig) as client:
        assert await client.list(NAMESPACES)


@pytest.mark.asyncio(loop_scope="session")
async def test_etcd_answers_nobody_without_a_certificate_of_its_own_ca(clusters: LocalClusters, tmp_path: Path) -> None:
    port, user = clusters.etcd.port, clusters.kcp.kubeconfig_for("somebody", ("system:masters",))
    users = load_yaml(user.read_text())["users"][0]["user"]
    pair = tmp_path / "somebody.pem"
    pair.write_bytes(b"".join(base64.b64decode(users[f"client-{part}-data"]) for part in ("certificate", "key")))
    without, of_the_clusters = (ssl.create_default_context() for _ in range(2))
    of_the_clusters.load_cert_chain(pair)
    everything = {"key": "AA==", "range_end": "AA=="}
    for context in (without, of_the_clusters):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        for each in (port, clusters.etcd.peer_port):
            async with httpx.AsyncClient(verify=context, trust_env=False) as client:
                with pytest.raises((httpx.HTTPError, ssl.SSLError)):
                    await client.post(f"https://127.0.0.1:{each}/v3/kv/range", json=everything)
                with pytest.raises(httpx.HTTPError):
                    (await client.get(f"http://127.0.0.1:{each}/version")).raise_for_status()
    folder = clusters.kcp.directory.parent
    keys = [path for path in folder.rglob("*") if path.suffix in {".key", ".kubeconfig"}]
    assert len(keys) >= 5
    readable = [path for path in (*keys, clusters.kcp.admin_kubeconfig) if path.stat().st_mode & 0o077]
    assert readable == []
    assert folder.stat().st_mode & 0o077 == 0
