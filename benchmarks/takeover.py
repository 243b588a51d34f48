"""Measures the takeover of a fleet from the former version: writes to the objects of modules, and events that are lost.

The simulated clusters have seven modules each, as the Lifecycle Manager in Go was recorded to leave them. While the
Lifecycle Manager takes them over, the former Watcher of one cluster sends unsigned events at a steady rate, each by a
connection of its own that it never closes, and the users of all clusters in turn change their Kyma CRs, which the
Watcher of their cluster reports. In all other clusters this version's Watcher starts as soon as it is applied, and
sends its first event, which is signed. At last it does in that one too.

The events begin when the event endpoint serves: before, while neither version runs, nobody could accept one. What
changes then is found by the first reconcile.

Run by `python -m benchmarks.takeover`; the full size is `--clusters 1000 --events 10000 --changes 2000`.
"""

import argparse
import asyncio
import json
import resource
import ssl
import sys
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx
import uvloop

from benchmarks.figures import Figure, print_all
from benchmarks.processes.fleet import (
    TIMEOUT_SECONDS,
    Answer,
    FleetProcess,
    LifecycleManagerProcess,
    User,
    run_controlled,
    run_lifecycle_manager,
    users_of,
    wait_for_endpoint,
)
from benchmarks.processes.former_fleet import former_name
from kyma_local.ports import free_port
from kyma_local.processes import tail
from kyma_oci import Registries
from tests.integration.takeover.watchers import EVENT
from tests.registries import real_registry
from tests.takeover_from_go import modules
from tests.takeover_from_go.surroundings import PULL_SECRET

REPORT_SECONDS = 30.0
POLL_SECONDS = 0.5
BODY = json.dumps(EVENT).encode()
ACCEPTED, REFUSED = 200, 401
MAX_CHANGES = len(modules.CHOSEN[0])


def main() -> int:
    """Measure and print the figures; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=50, dest="kymas")
    parser.add_argument("--events", type=int, default=600, help="number of events of the former Watcher")
    parser.add_argument("--changes", type=int, default=100, help="number of changes of users")
    parser.add_argument("--rate", type=float, default=40.0, help="events a second, and changes")
    options = parser.parse_args()
    if options.changes > MAX_CHANGES * options.kymas:
        parser.error(f"each cluster has {MAX_CHANGES} modules that its user can change")
    _allow_connections(options.events + 3 * options.kymas)
    return print_all(uvloop.run(measure(options)))


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


async def measure(options: argparse.Namespace) -> list[Figure]:
    """Have a fleet taken over; return the figures."""
    with TemporaryDirectory(prefix="takeover-") as text:
        folder, port = Path(text), free_port()
        async with AsyncExitStack() as stack:
            registry = await stack.enter_async_context(_serve_modules(folder))
            given = (f"--kymas={options.kymas}", f"--registry={registry}")
            fleet = await stack.enter_async_context(run_controlled("former_fleet", *given))
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(json.dumps(fleet.kubeconfig))
            former = FormerWatcher(port, await _context(fleet, 0, folder))
            stack.callback(former.close)
            more = (
                "--self-signed-cert-issuer-namespace=istio-system",
                "--repair-on-events",
                f"--oci-registry-host=http://{registry}",
                f"--skr-image-pull-secret={PULL_SECRET}",
            )
            began = time.monotonic()
            async with run_lifecycle_manager(kubeconfig, port, folder, more=more) as manager:
                await wait_for_endpoint(port)
                takeover = Takeover(fleet, manager, port, folder, stack)
                async with asyncio.TaskGroup() as tasks:
                    tasks.create_task(former.send(options.events, options.rate))
                    tasks.create_task(takeover.change(options.changes, options.rate, options.kymas))
                    await takeover.until_done(options.kymas, options.changes, beside=1)
                    seconds, cpu = time.monotonic() - began, manager.cpu_seconds()
                await takeover.start_watchers([0])
                await takeover.until_done(options.kymas, options.changes, beside=0)
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
    late = options.changes - verdict["arrived"]
    bars = (
        ("replaced", f"of {objects} objects", gone, "0 deleted or created again", gone == 0),
        ("applies", "for an object", verdict["max_applies"], "1 at most", verdict["max_applies"] <= 1),
        ("patches", "for an object", verdict["max_patches"], "1 at most", verdict["max_patches"] <= 1),
        ("events_lost", f"of {options.events}", lost, "0", lost == 0),
        ("watchers_events_lost", f"of {options.kymas + options.changes}", takeover.lost, "0", takeover.lost == 0),
        ("changes_lost", f"of {options.changes}", late, "0", late == 0),
        ("former_accepted_after", "of 1", int(after != REFUSED), "0 once the Watcher is replaced", after == REFUSED),
        ("seconds", f"s for {options.kymas} clusters", round(seconds, 1), "none given", True),
    )
    return [
        Figure(name=f"takeover_{name}", unit=unit, value=value, bar=bar, met=met)
        for name, unit, value, bar, met in bars
    ]


@dataclass
class Takeover:
    """The clusters during the takeover. `lost` counts the events of Watchers of either version that were refused."""

    fleet: FleetProcess
    manager: LifecycleManagerProcess
    port: int
    folder: Path
    stack: AsyncExitStack
    lost: int = 0
    _users: dict[int, User] = field(default_factory=dict)
    _turns: defaultdict[int, asyncio.Lock] = field(default_factory=lambda: defaultdict(asyncio.Lock))

    async def until_done(self, kymas: int, changes: int, *, beside: int) -> None:
        """Start Watchers until all is applied, changes arrived, and each cluster but `beside` ones has the webhook."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            while True:
                progress = await self.fleet.do("progress")
                await self.start_watchers([each for each in progress["watchers"] if each >= beside])
                has_all = progress["done"] >= progress["of"] and progress["arrived"] >= changes
                if has_all and progress["webhooks"] >= kymas - beside:
                    return
                if self.manager.child.returncode is not None:
                    raise RuntimeError(f"the Lifecycle Manager exited:\n{tail(self.manager.child.log, 40)}")
                await asyncio.sleep(POLL_SECONDS)

    async def start_watchers(self, numbers: list[int]) -> None:
        """Start the Watchers of clusters that were not started: each sends its first event."""
        for number in numbers:
            if number not in self._users:
                async with self._turns[number]:
                    new = await users_of([number], self.fleet, self.port, self.stack, former_name)
                    self._users[number] = new[0]
                    await self._send(new[0], {"uid": "", "version": ""})

    async def change(self, count: int, rate: float, kymas: int) -> None:
        """Have users change their Kyma CRs at a rate, in one cluster after another."""
        began = time.monotonic()
        async with asyncio.TaskGroup() as tasks:
            for number in range(count):
                await asyncio.sleep(began + number / rate - time.monotonic())
                tasks.create_task(self._change_one(number % kymas))

    async def _change_one(self, number: int) -> None:
        """Change a Kyma CR, which the Watcher that is there at the time reports."""
        async with self._turns[number]:
            edited = await self.fleet.do("change", number=number)
            if number in self._users:
                await self._send(self._users[number], edited)
                return
            watcher = FormerWatcher(self.port, await _context(self.fleet, number, self.folder))
            answer = await watcher.send_one()
            watcher.close()
            if answer != ACCEPTED:
                print(f"change in cluster {number}: {answer}", file=sys.stderr)
                self.lost += 1

    async def _send(self, user: User, edited: Answer) -> None:
        try:
            await user.send_event(edited)
        except httpx.HTTPError as error:
            print(f"cluster {user.kyma}: {error!r}", file=sys.stderr)
            self.lost += 1


@asynccontextmanager
async def _serve_modules(folder: Path) -> AsyncIterator[str]:
    """Run a registry with the recorded modules; yield its host."""
    registries = Registries()
    try:
        async with real_registry(folder) as host:
            for module in modules.INSTALLED:
                await module.push(registries, host, modules.OLD)
            yield host
    finally:
        await registries.close()


async def _context(fleet: FleetProcess, number: int, folder: Path) -> ssl.SSLContext:
    """Return how the former Watcher of a cluster connects."""
    watcher = await fleet.do("watcher", number=number)
    context = ssl.create_default_context(cadata=watcher["trusted"])
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    files = {name: folder / f"former-{number}-{name}" for name in ("certificate", "key")}
    for name, file in files.items():
        file.write_text(watcher[name])
    context.load_cert_chain(files["certificate"], files["key"])
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
