"""Measures the takeover of a fleet from the former version: writes to the objects of modules, and events that are lost.

The simulated clusters have five modules each, as the former version leaves them. While the Lifecycle Manager takes them
over, the former Watcher of one cluster sends unsigned events at a steady rate, each by a connection of its own that it
never closes. In all other clusters this version's Watcher starts as soon as it is applied, and sends its first event,
which is signed. At last it does in that one too.

The events begin when the event endpoint serves: before, while neither version runs, nobody could accept one. What
changes then is found by the first reconcile.

Run by `python -m benchmarks.takeover`; the full size is `--clusters 1000 --events 10000`.
"""

import argparse
import asyncio
import json
import resource
import ssl
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import uvloop

from benchmarks.figures import Figure
from benchmarks.processes.fleet import (
    TIMEOUT_SECONDS,
    Answer,
    FleetProcess,
    LifecycleManagerProcess,
    run_fleet,
    run_lifecycle_manager,
    users_of,
    wait_for_endpoint,
)
from benchmarks.processes.former_fleet import MODULES, former_name, of_module
from kyma_local.ports import free_port
from kyma_local.processes import tail
from tests.integration.takeover import seeding
from tests.integration.takeover.watchers import EVENT
from tests.registries import blob_server, packed

REPORT_SECONDS = 30.0
POLL_SECONDS = 0.5
BODY = json.dumps(EVENT).encode()
ACCEPTED, REFUSED = 200, 401


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=50, dest="kymas")
    parser.add_argument("--events", type=int, default=600, help="number of events of the former Watcher")
    parser.add_argument("--rate", type=float, default=40.0, help="events a second")
    options = parser.parse_args()
    options.modules = len(MODULES)
    _allow_connections(options.events)
    figures = uvloop.run(_measure(options))
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


@dataclass
class FormerWatcher:
    """The former Watcher of a cluster: it keeps the connection of each event. `answers` counts what it was answered."""

    port: int
    context: ssl.SSLContext
    answers: Counter[int | str] = field(default_factory=Counter)
    _kept: list[asyncio.StreamWriter] = field(default_factory=list)

    async def send(self, count: int, rate: float) -> None:
        """Send events at a rate, whether or not earlier ones are answered."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await asyncio.sleep(began + number / rate - time.monotonic())
                tasks.create_task(self._count_one(number))

    async def send_one(self) -> int | str:
        """Send an event; return the status of the answer, or why there is none."""
        try:
            async with asyncio.timeout(REPORT_SECONDS):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port, ssl=self.context)
                self._kept.append(writer)
                head = "POST /v2/lifecycle-manager/event HTTP/1.1\r\nhost: 127.0.0.1\r\n"
                head += f"content-type: application/json\r\ncontent-length: {len(BODY)}\r\n\r\n"
                writer.write(head.encode() + BODY)
                return int((await reader.readuntil(b"\r\n\r\n"))[9:12])
        except (OSError, EOFError, TimeoutError) as error:
            return type(error).__name__

    async def _count_one(self, number: int) -> None:
        answer = await self.send_one()
        self.answers[answer] += 1
        if answer != ACCEPTED:
            print(f"event {number}: {answer}", file=sys.stderr)

    def close(self) -> None:
        """Close what it never would."""
        for writer in self._kept:
            writer.transport.abort()


async def _measure(options: argparse.Namespace) -> list[Figure]:
    with TemporaryDirectory(prefix="takeover-") as text:
        folder, port = Path(text), free_port()
        async with AsyncExitStack() as stack:
            layers = await stack.enter_async_context(_serve_layers(folder))
            fleet = await stack.enter_async_context(run_fleet(options, layers, program="former_fleet"))
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(json.dumps(fleet.kubeconfig))
            former = FormerWatcher(port, _context(fleet.ready["watcher"], folder))
            stack.callback(former.close)
            more = ("--self-signed-cert-issuer-namespace=istio-system", "--repair-on-events")
            began = time.monotonic()
            async with run_lifecycle_manager(kubeconfig, port, folder, more=more) as manager:
                await wait_for_endpoint(port)
                sending = asyncio.create_task(former.send(options.events, options.rate))
                takeover = Takeover(fleet, manager, port, folder)
                await takeover.until_done(options.kymas, beside=1)
                seconds, cpu = time.monotonic() - began, manager.cpu_seconds()
                await sending
                await takeover.start_watchers([0])
                await takeover.until_done(options.kymas, beside=0)
                after = await former.send_one()
                await manager.wait_until_idle()
                verdict = await fleet.do("verdict")
            print(f"{seconds:.1f} s, {cpu:.1f} s CPU, {verdict}, events: {dict(former.answers)}", file=sys.stderr)
            return _figures(options, former, takeover, verdict, after=after, seconds=seconds)


def _figures(
    options: argparse.Namespace,
    former: FormerWatcher,
    takeover: "Takeover",
    verdict: Answer,
    *,
    after: int | str,
    seconds: float,
) -> list[Figure]:
    objects = verdict["objects"]
    gone = verdict["replaced"] + verdict["deletions"]
    lost = options.events - former.answers[ACCEPTED]
    bars = (
        ("replaced", f"of {objects} objects", gone, "0 deleted or created again", gone == 0),
        ("applies", "for an object", verdict["max_applies"], "1 at most", verdict["max_applies"] <= 1),
        ("patches", "for an object", verdict["max_patches"], "1 at most", verdict["max_patches"] <= 1),
        ("events_lost", f"of {options.events}", lost, "0", lost == 0),
        ("signed_events_lost", f"of {options.kymas}", takeover.lost, "0", takeover.lost == 0),
        ("former_accepted_after", "of 1", int(after != REFUSED), "0 once the Watcher is replaced", after == REFUSED),
        ("seconds", f"s for {options.kymas} clusters", round(seconds, 1), "none given", True),
    )
    return [
        Figure(name=f"takeover_{name}", unit=unit, value=value, peer="", peer_value=0, bar=bar, met=met)
        for name, unit, value, bar, met in bars
    ]


@dataclass
class Takeover:
    """The clusters during the takeover. `lost` counts the first events of new Watchers that were not accepted."""

    fleet: FleetProcess
    manager: LifecycleManagerProcess
    port: int
    folder: Path
    lost: int = 0
    _started: set[int] = field(default_factory=set)

    async def until_done(self, kymas: int, *, beside: int) -> None:
        """Start Watchers until each object was applied, and each cluster but `beside` ones has the webhook."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                progress = await self.fleet.do("progress")
                await self.start_watchers([each for each in progress["watchers"] if each >= beside])
                if progress["done"] >= progress["of"] and progress["webhooks"] >= kymas - beside:
                    return
                if self.manager.child.returncode is not None:
                    raise RuntimeError(f"the Lifecycle Manager exited:\n{tail(self.manager.child.log, 40)}")
                await asyncio.sleep(POLL_SECONDS)

    async def start_watchers(self, numbers: list[int]) -> None:
        """Start the Watchers of clusters that were not started: each sends its first event."""
        new = [each for each in numbers if each not in self._started]
        self._started.update(new)
        async with AsyncExitStack() as stack:
            for user in await users_of(new, self.fleet, self.port, self.folder, stack, former_name):
                try:
                    await user.send_event({"uid": "", "version": ""})
                except httpx.HTTPError as error:
                    print(f"cluster {user.kyma}: {error!r}", file=sys.stderr)
                    self.lost += 1


@asynccontextmanager
async def _serve_layers(folder: Path) -> AsyncIterator[Path]:
    """Serve the layers of the modules' versions; yield the file with their digests."""
    async with blob_server() as layers:
        digests = {
            module: [layers.hold(packed({"m.yaml": of_module(seeding.module_text(n), module)})) for n in (1, 2)]
            for module in MODULES
        }
        file = folder / "layers.json"
        file.write_text(json.dumps({"registry": layers.host, "digests": digests}))
        yield file


def _context(watcher: dict[str, str], folder: Path) -> ssl.SSLContext:
    """Return how the former Watcher connects."""
    context = ssl.create_default_context(cadata=watcher["trusted"])
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    for name in ("certificate", "key"):
        (folder / name).write_text(watcher[name])
    context.load_cert_chain(folder / "certificate", folder / "key")
    return context


def _allow_connections(count: int) -> None:
    """Allow as many open files as there are connections."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = count + 2_000
    if hard != resource.RLIM_INFINITY and hard < wanted:
        raise SystemExit(f"needs {wanted} open files, and the limit is {hard}: raise it by ulimit -n")
    resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


if __name__ == "__main__":
    sys.exit(main())
