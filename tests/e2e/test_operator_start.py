"""The operator's first page, executed command by command in an empty folder and home; the clusters are judged."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from kube_runtime import Client, NotFound
from kyma_local.binaries import find_binaries
from kyma_local.kubectl import find_kubectl
from lifecycle_manager.contract.resources import KYMAS, MODULE_ROLLOUTS
from lifecycle_manager_api import names
from tests.e2e.test_demo import running_from
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

pytestmark = [
    pytest.mark.xdist_group("demo"),
    pytest.mark.skipif(sys.platform != "linux", reason="reads running processes from /proc"),
]
PAGE = Path("docs/start/operator.md").read_text()
STEP = re.compile(r"^\*\*(\d)\. ")
SETS = ("alias ", "export ")
"""What a command begins with that those after it need."""
PLAYGROUND = "klm playground"
START_SECONDS = 400
COMMAND_SECONDS = 200
SKR = names.SKR_NAMESPACE


def commands() -> dict[str, list[str]]:
    """Return the commands of the page by the step that they belong to, "" for those before the first."""
    found, step = dict[str, list[str]](), ""
    for line in PAGE.splitlines():
        if heading := STEP.match(line):
            step = heading[1]
        if line.startswith("    "):
            found.setdefault(step, []).append(line.strip())
    return found


@dataclass(frozen=True)
class Terminal:
    """The other terminal of the reader."""

    folder: Path
    environment: dict[str, str]

    def run(self, command: str, before: list[str]) -> str:
        """Run a command of the page, after those that set something; its exit code is the one that the page says."""
        wanted = int(found[1]) if (found := re.search(r"# exit code (\d)", command)) else 0
        script = "\n".join(["shopt -s expand_aliases", *before, command])
        done = subprocess.run(
            ["bash", "-c", script],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=COMMAND_SECONDS,
            check=False,
        )
        assert done.returncode == wanted, f"{command}\n{done.stdout}\n{done.stderr}"
        return done.stdout


@contextmanager
def playground(terminal: Terminal) -> Iterator[list[str]]:
    """Run the playground until the block ends; yield what it has printed. Its end is clean."""
    process = subprocess.Popen(
        PLAYGROUND.split(),
        cwd=terminal.folder,
        env=terminal.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    killer = threading.Timer(START_SECONDS, process.kill)
    killer.start()
    try:
        assert process.stdout is not None
        printed = []
        for line in process.stdout:
            printed.append(line.rstrip())
            if "until Ctrl-C" in line:
                break
        killer.cancel()
        assert process.poll() is None, "\n".join(printed)
        yield printed
        process.send_signal(signal.SIGINT)
        rest = process.communicate(timeout=COMMAND_SECONDS)[0]
        assert process.returncode == 0, rest
        assert "Traceback" not in rest
    finally:
        killer.cancel()
        process.kill()
        process.wait()


@dataclass(frozen=True)
class Clusters:
    """The clusters of the playground, as their administrators see them."""

    kcp: Client
    demo: Client
    second: Client

    async def states(self) -> dict[str, str]:
        """Return the states of the Kymas in the control plane."""
        return {
            each.metadata.name: each.status.state.value
            for each in (await self.kcp.list(KYMAS, names.KCP_NAMESPACE)).items
        }

    async def greetings(self) -> list[str]:
        """Return the versions of the module that the clusters have."""
        found = []
        for client in (self.demo, self.second):
            try:
                found.append((await client.get(CONFIG_MAPS, "greeting", SKR))["data"]["version"])
            except NotFound:
                found.append("")
        return found

    async def wait_for(self, states: dict[str, str], greetings: list[str]) -> None:
        """Wait until Kymas have these states and clusters these versions."""

        async def so() -> bool:
            return (await self.states(), await self.greetings()) == (states, greetings)

        await eventually(so, within=COMMAND_SECONDS, what=f"{states} with {greetings}")


READY = {"demo": "Ready", "second": "Ready"}


async def first_cluster_is_ready(clusters: Clusters) -> None:
    assert await clusters.states() == {"demo": "Ready"}
    assert await clusters.greetings() == ["1.0.0", ""]


async def second_has_joined(clusters: Clusters) -> None:
    await clusters.wait_for(READY, ["1.0.0", "1.0.0"])


async def volumes_are_there(clusters: Clusters) -> None:
    found = {each["metadata"]["name"] for each in (await clusters.second.list(CONFIG_MAPS, SKR)).items}
    assert {"default-nfs-media", "default-nfs-archive"} <= found


async def mistake_is_corrected(clusters: Clusters) -> None:
    await clusters.wait_for(READY, ["1.0.0", "1.0.0"])
    kyma = await clusters.second.get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)
    assert [each.name for each in kyma.spec.modules] == ["greeting", "cloud-resources"]


async def new_version_is_everywhere(clusters: Clusters) -> None:
    await clusters.wait_for(READY, ["1.1.0", "1.1.0"])


async def broken_version_is_taken_back(clusters: Clusters) -> None:
    await clusters.wait_for(READY, ["1.1.0", "1.1.0"])
    rollouts = {each.metadata.name: each for each in (await clusters.kcp.list(MODULE_ROLLOUTS, "kcp-system")).items}
    assert rollouts["greeting-regular-4"].spec.undoes == "greeting-regular-3"
    assert rollouts["greeting-regular-3"].spec.version == "2.0.0"


JUDGES: dict[str, Callable[[Clusters], Awaitable[None]]] = {
    "1": first_cluster_is_ready,
    "2": second_has_joined,
    "3": volumes_are_there,
    "4": mistake_is_corrected,
    "5": new_version_is_everywhere,
    "6": broken_version_is_taken_back,
}


async def test_each_command_of_the_operators_first_page_does_what_it_says(tmp_path: Path) -> None:
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kubectl").symlink_to(find_kubectl())
    path = (Path(sys.executable).parent, programs, "/usr/bin", "/bin")
    environment = {
        "HOME": str(tmp_path / "home"),
        "PATH": os.pathsep.join(map(str, path)),
        "KUBEBUILDER_ASSETS": str(find_binaries().folder),
    }
    folder = tmp_path / "folder"
    folder.mkdir()
    terminal, steps = Terminal(folder, environment), commands()
    of_checkout, start, *sets = steps.pop("")
    assert (of_checkout.split()[:2], start) == (["make", "setup"], PLAYGROUND)
    assert {*steps} == {*JUDGES}
    with playground(terminal) as printed:
        assert sum(line.startswith("✓") for line in printed) == 2
        kubeconfigs = [folder / ".local/playground" / each / "kubeconfig" for each in ("kcp", "skr-1", "skr-2")]
        async with (
            await Client.from_environment(kubeconfigs[0]) as kcp,
            await Client.from_environment(kubeconfigs[1]) as demo,
            await Client.from_environment(kubeconfigs[2]) as second,
        ):
            clusters = Clusters(kcp, demo, second)
            for step, typed in steps.items():
                for command in typed:
                    if command.startswith(SETS):
                        sets.append(command)
                    else:
                        await asyncio.to_thread(terminal.run, command, sets)
                await JUDGES[step](clusters)
    assert running_from(folder) == []
