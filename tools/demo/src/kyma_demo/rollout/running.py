"""Runs the demo of rollouts: the simulated fleet in this process, Lifecycle Manager in one of its own."""

import asyncio
import signal
import sys
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import uvloop
from rich.console import Console

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, KubeError
from kyma_demo import processes
from kyma_demo.report import step_document
from kyma_demo.rollout.fleet import MODULE, simulated_fleet
from kyma_demo.rollout.screen import RolloutScreen
from kyma_demo.rollout.story import RolloutStory
from kyma_demo.rollout.watchers import SimulatedWatchers
from kyma_demo.running import demo_folder, exports
from kyma_local.claims import FolderInUse
from kyma_local.ports import free_port
from kyma_local.private_files import write_private
from kyma_local.starting import StartFailed, has_ended

CLUSTERS = 200
"""With fewer clusters all is faster in proportion: there is less to see."""
SOAK_SECONDS = 2.0
INTERRUPTED = 130


def run_rollout_demo(*, clusters: int, stay: bool, as_document: bool, directory: Path | None) -> int:
    """Run the demo; return its exit code."""
    console = Console(stderr=as_document)
    try:
        with demo_folder(directory) as folder:
            return uvloop.run(_run(folder, console, clusters=clusters, stay=stay, as_document=as_document))
    except (FolderInUse, KubeError, OSError, StartFailed) as error:
        console.print(str(error), style="red", markup=False, soft_wrap=True)
        return 1


async def _run(folder: Path, console: Console, *, clusters: int, stay: bool, as_document: bool) -> int:
    stopping = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)
    pace = min(1.0, clusters / CLUSTERS)
    screen = RolloutScreen(Console(quiet=True) if as_document else console)
    async with AsyncExitStack() as stack:
        fleet = await stack.enter_async_context(simulated_fleet(clusters, pace=pace, soak_seconds=pace * SOAK_SECONDS))
        kubeconfig = write_private(folder / "kcp.yaml", msgspec.json.encode(fleet.kcp.kubeconfig).decode())
        page_port, event_port = free_port(), free_port()
        program = processes.lifecycle_manager_of_simulation(kubeconfig, page_port, event_port)
        manager = await processes.start(program, folder / "logs")
        stack.push_async_callback(manager.stop)
        policy, options = KubeconfigPolicy.permissive(), ClientOptions(qps=0)
        connecting = await Client.from_kubeconfig(fleet.kcp.kubeconfig, options=options, policy=policy)
        kcp = await stack.enter_async_context(connecting)
        story, watchers = RolloutStory(fleet, kcp, screen), SimulatedWatchers(kcp, event_port)
        if not as_document:
            text = introduction(pace * SOAK_SECONDS, f"http://127.0.0.1:{page_port}")
            console.print(text, markup=False, highlight=False, soft_wrap=True)
        sending = asyncio.ensure_future(watchers.run())
        stack.callback(sending.cancel)
        running, ended = asyncio.ensure_future(story.run()), asyncio.ensure_future(manager.process.wait())
        stop_requested = asyncio.ensure_future(stopping.wait())
        await asyncio.wait({running, ended, sending, stop_requested}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
            if stopping.is_set():
                return INTERRUPTED
            if sending.done():
                sending.result()
            raise has_ended(manager)
        running.result()
        if as_document:
            document = {"clusters": clusters, "steps": [step_document(each) for each in story.steps]}
            sys.stdout.write(msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n")
        if stay and story.verified:
            print_next_commands(console, kubeconfig)
            await stopping.wait()
        ended.cancel()
        return 0 if story.verified else 1


def introduction(soak: float, page: str) -> str:
    """Return what is said before the steps."""
    return (
        f"Simulated clusters, the real Lifecycle Manager; waves soak for {soak:g} s.\n"
        f"To watch it in a browser: {page} with any token.\n"
    )


def print_next_commands(console: Console, kubeconfig: Path) -> None:
    """Print what can be tried with the fleet."""
    console.print(
        "Everything runs until Ctrl-C. In another terminal:\n"
        f"  [bold]{exports(kubeconfig)}[/]\n"
        "  [bold]klm rollout list --all[/]\n"
        f"  [bold]klm rollout status {MODULE}[/]",
        highlight=False,
        soft_wrap=True,
    )
