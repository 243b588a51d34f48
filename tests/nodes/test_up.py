"""`klm local up --nodes` as a user runs it."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp

from kyma_local.cache import cache_root
from kyma_local.nodes.folders import PREFIX, cgroup_roots, remove_left_behind
from kyma_local.nodes.programs import find_programs
from tests.klm import KLM
from tests.nodes.clusters import kubectl
from tests.waiting import eventually

FOLDER = "clusters"
UP_SECONDS = 240.0
DNS_READY = 8181
DNS_POD = ("--namespace=kube-system", "deployment/coredns")


@asynccontextmanager
async def up(folder: Path, *, end: signal.Signals) -> AsyncIterator[Path]:
    """Run `klm local up --nodes`; yield the kubeconfig of the user cluster; end it by a signal."""
    command = (str(KLM), "local", "up", "--nodes", "--dir", str(folder / FOLDER), "--images", str(folder))
    with (folder / "output").open("wb") as output:
        process = await asyncio.create_subprocess_exec(*command, stdout=output, stderr=output)
    try:

        def ready() -> bool:
            text = (folder / "output").read_text()
            assert process.returncode is None, text
            return "Running until Ctrl-C" in text

        await eventually(ready, what="clusters with nodes", within=UP_SECONDS, every=0.2)
        yield folder / FOLDER / "skr-1" / "kubeconfig"
    finally:
        process.send_signal(end)
        await process.wait()


def processes_of(folder: Path) -> list[str]:
    """Return the command lines that name a folder, of all processes."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdecimal() and int(process.name) != os.getpid():
            try:
                line = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue  # ended meanwhile
            if str(folder) in line:
                found.append(line)
    return found


def mounts() -> str:
    return Path("/proc/mounts").read_text()


def nodes_on_this_machine() -> set[str]:
    """Return what nodes have left: folders, and cgroups."""
    places = (cache_root() / "nodes", *cgroup_roots())
    return {str(each) for place in places for each in place.glob(f"{PREFIX}*")}


@asynccontextmanager
async def forwarded(kubeconfig: Path, port: int) -> AsyncIterator[str]:
    """Run `kubectl port-forward` to CoreDNS; yield the address on this machine."""
    command = (str(find_programs() / "kubectl"), f"--kubeconfig={kubeconfig}", "port-forward", *DNS_POD, f":{port}")
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        words = (await process.stdout.readline()).decode().split()  # Forwarding from 127.0.0.1:… -> …
        yield words[2]
    finally:
        process.terminate()
        await process.wait()


async def test_kubectl_reaches_pods_and_nothing_outlives_the_end_or_a_kill(tmp_path: Path) -> None:
    remove_left_behind(cache_root() / "nodes")
    before, mounted = nodes_on_this_machine(), mounts()
    async with up(tmp_path, end=signal.SIGKILL) as kubeconfig:
        assert await kubectl(kubeconfig, "get", "nodes", "--output=name") == "node/skr-1\n"
        assert "CoreDNS" in await kubectl(kubeconfig, "logs", *DNS_POD)
        assert "CoreDNS" in await kubectl(kubeconfig, "exec", *DNS_POD, "--", "/coredns", "-version")
        async with forwarded(kubeconfig, DNS_READY) as address, aiohttp.ClientSession() as session:
            assert (await session.get(f"http://{address}/ready")).status == 200
        nodes = nodes_on_this_machine() - before
        assert nodes
        states = [Path(each) for each in nodes if Path(each).parent.name == "nodes"]
        running = [line for state in states for line in processes_of(state)]
        assert any("kubelet" in line for line in running)

    def ended() -> bool:
        return not any(processes_of(each) for each in (*states, tmp_path))

    await eventually(ended, what="the end of all processes after SIGKILL")
    assert mounts() == mounted
    remove_left_behind(cache_root() / "nodes")
    assert nodes_on_this_machine() == before

    async with up(tmp_path, end=signal.SIGTERM) as kubeconfig:
        assert await kubectl(kubeconfig, "get", "nodes", "--output=name") == "node/skr-1\n"
    assert not processes_of(tmp_path)
    assert nodes_on_this_machine() == before
