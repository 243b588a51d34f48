"""Single changes on the demo's clusters: the time of each hop, and what it was spent on.

A hop ends with a line in the log of a program, found by the trace of the change. What the time was spent on is measured
in four ways, none of which changes the programs:

- API server: the handlers' time of the requests that a change waits for, from the API servers' own metrics
- webhooks: the part of it that the API servers waited for ours, of the Watcher and of Lifecycle Manager
- network: what a plain client takes longer than the API servers for the same requests (TLS, HTTP, its own CPU)
- our CPU: the CPU time of the three programs between the user's write and the object in force
- waiting: the rest, for the delivery of watch events, for a turn of the event loop, and for a core

All are means, since only means add up. CPU that a webhook uses is counted in `webhooks` and in `our CPU`, so `waiting`
is rather too small.
"""

import asyncio
import re
import statistics
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from benchmarks.peers.cpu_time import cpu_seconds
from benchmarks.profiling.flame_graph import record
from kyma_demo import measure, names
from kyma_demo.environment import Environment, open_environment
from kyma_demo.programs import Programs
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES

HOPS = (
    ("skr-watcher", "change admitted", "user's write reaches the Watcher"),
    ("lifecycle-manager", "event taken", "signed event reaches Lifecycle Manager"),
    ("lifecycle-manager", "module config written", "read in the SKR, ModuleConfig written"),
    ("module-manager", "sync resource written", "watch, SyncResource written"),
)
LAST_HOP = "watch, objects applied, seen by the user"
ON_PATH = (
    ("skr", "PATCH", "infrastructures", ""),
    ("skr", "GET", "infrastructures", ""),
    ("kcp", "PATCH", "moduleconfigs", ""),
    ("kcp", "PATCH", "syncresources", ""),
    ("skr", "PATCH", "configmaps", ""),
)
"""The requests that a change waits for, by cluster, verb, resource and subresource."""
WEBHOOK = ("webhooks", "", "")
PAUSE_SECONDS = 0.3
"""Before each change, so that status writes do not delay the next, and before each floor: caches are cold."""
METRIC = re.compile(
    r"^apiserver_(?P<metric>request_duration|admission_webhook_admission_duration)_seconds_(?P<part>sum|count)"
    r"\{(?P<labels>[^}]*)\} (?P<value>\S+)$"
)
LABEL = re.compile(r'(\w+)="([^"]*)"')

Request = tuple[str, str, str, str]


@dataclass(frozen=True, slots=True)
class Handled:
    """How many requests of a kind an API server handled, and the seconds of all of them."""

    count: int
    seconds: float


@dataclass(slots=True)
class Changes:
    """Measured changes; times in milliseconds, one entry for each change."""

    totals: list[float] = field(default_factory=list)
    hops: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    cpu: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    floor: float = 0.0
    network: float = 0.0
    requests: dict[Request, Handled] = field(default_factory=dict)

    def spent(self) -> dict[str, float]:
        """Return the milliseconds of the mean change by what they were spent on."""
        total = statistics.mean(self.totals)
        server = sum(1000 * handled.seconds / handled.count for each in ON_PATH if (handled := self.requests.get(each)))
        webhooks = sum(
            1000 * handled.seconds / len(self.totals) for each, handled in self.requests.items() if each[1:] == WEBHOOK
        )
        cpu = sum(statistics.mean(each) for each in self.cpu.values())
        waiting = max(0.0, total - server - self.network - cpu)
        return {
            "API server": max(0.0, server - webhooks),
            "webhooks": webhooks,
            "network": self.network,
            "our CPU": cpu,
            "waiting": waiting,
        }


async def measure_changes(count: int, seconds: float, directory: Path, output: Path) -> Changes:
    """Measure changes one after the other, then sample the programs while changes follow each other.

    The clusters are in `directory`, the flame graphs in `output`.
    """
    changes = Changes()
    async with open_environment(directory, None, None) as environment, AsyncExitStack() as stack:
        walkthrough = Walkthrough(environment, Programs(environment, stack))
        async with asyncio.TaskGroup() as tasks:
            watching = tasks.create_task(walkthrough.object_watcher.run())
            await walkthrough.set_up()
            await walkthrough.object_watcher.ready(60)
            await walkthrough.change_volume("1Gi")
            await _time_changes(walkthrough, changes, count)
            await _time_floor(walkthrough, changes, count)
            running = walkthrough.programs.running
            recordings = [await record(name, process.pid, output) for name, process in running.items()]
            until, number = time.perf_counter() + seconds, 10_000
            while time.perf_counter() < until:
                await _change(walkthrough, f"{number}Gi")
                number += 1
            for recording in recordings:
                await recording.stop()
            watching.cancel()
    return changes


async def _time_changes(walkthrough: Walkthrough, changes: Changes, count: int) -> None:
    environment, running = walkthrough.environment, walkthrough.programs.running
    before = await _handled(environment)
    moments = []
    for number in range(count):
        await asyncio.sleep(PAUSE_SECONDS)
        used = {name: cpu_seconds(process.pid) for name, process in running.items()}
        began = datetime.now(UTC)
        total = await _change(walkthrough, f"{100 + number}Gi")
        for name, process in running.items():
            changes.cpu[name].append(1000 * (cpu_seconds(process.pid) - used[name]))
        changes.totals.append(total)
        moments.append((began, total))
    await asyncio.sleep(PAUSE_SECONDS)
    changes.requests = _since(before, await _handled(environment))
    _add_hops(changes, moments, environment.logs)


async def _change(walkthrough: Walkthrough, capacity: str) -> float:
    began = time.perf_counter()
    await walkthrough.patch_volume(capacity)
    await walkthrough.wait_for_volume(capacity)
    return 1000 * (time.perf_counter() - began)


async def _time_floor(walkthrough: Walkthrough, changes: Changes, count: int) -> None:
    kcp = walkthrough.environment.kcp
    config = (await kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)).items[0]
    sync = await kcp.get(SYNC_RESOURCES, config.metadata.name, names.KCP_NAMESPACE)
    async with measure.floor_of(walkthrough.environment, INFRASTRUCTURES, config, sync) as once:
        before = await _handled(walkthrough.environment)
        times = list[float]()
        for _ in range(count):
            await asyncio.sleep(PAUSE_SECONDS)
            times.append(await once())
        during = _since(before, await _handled(walkthrough.environment))
    changes.floor = statistics.median(times)
    resources = {resource for _, _, resource, _ in (*ON_PATH, ("skr", "PATCH", "persistentvolumes", ""))}
    server = sum(handled.seconds for (_, _, each, part), handled in during.items() if each in resources and not part)
    changes.network = max(0.0, (sum(times) - 1000 * server) / count)


async def _handled(environment: Environment) -> dict[Request, Handled]:
    found: dict[Request, Handled] = {}
    for cluster, client in (("kcp", environment.kcp), ("skr", environment.skr)):
        text = (await client.raw("GET", "/metrics", accept="text/plain")).decode()
        for (verb, resource, subresource), handled in read_handled(text).items():
            found[cluster, verb, resource, subresource] = handled
    return found


def _since(before: dict[Request, Handled], after: dict[Request, Handled]) -> dict[Request, Handled]:
    found = {}
    for request, handled in after.items():
        earlier = before.get(request, Handled(0, 0))
        if handled.count > earlier.count:
            found[request] = Handled(handled.count - earlier.count, handled.seconds - earlier.seconds)
    return found


def read_handled(text: str, *, but_group: str | None = None) -> dict[tuple[str, str, str], Handled]:
    """Return the requests that an API server has handled, by verb, resource and subresource, from its metrics.

    All calls of webhooks are one entry, WEBHOOK. Resources of the group `but_group` are left out.
    """
    counts: Counter[tuple[str, str, str]] = Counter()
    seconds: defaultdict[tuple[str, str, str], float] = defaultdict(float)
    for line in text.splitlines():
        if (found := METRIC.match(line)) is None:
            continue
        labels = dict(LABEL.findall(found["labels"]))
        if but_group is not None and labels.get("group") == but_group:
            continue
        if found["metric"] != "request_duration":
            key = WEBHOOK
        elif labels.get("resource") and labels["verb"] not in {"WATCH", "CONNECT"}:
            verb = "PATCH" if labels["verb"] == "APPLY" else labels["verb"]
            key = (verb, labels["resource"], labels.get("subresource", ""))
        else:
            continue
        if found["part"] == "count":
            counts[key] += int(float(found["value"]))
        else:
            seconds[key] += float(found["value"])
    return {key: Handled(count, seconds[key]) for key, count in counts.items()}


def _add_hops(changes: Changes, moments: Sequence[tuple[datetime, float]], logs: Path) -> None:
    """Add the hops of the changes whose lines are in all logs. Changes follow each other, so time tells them apart."""
    times = [_times(logs / f"{program}.log", message) for program, message, _ in HOPS]
    for began, total in moments:
        offsets = [
            next((ms for moment in found if 0 <= (ms := (moment - began).total_seconds() * 1000) <= total), None)
            for found in times
        ]
        known = [ms for ms in offsets if ms is not None]
        if len(known) < len(HOPS) or known != sorted(known):
            continue  # a read that was under way has found the change before its event arrived
        for (_, _, hop), start, end in zip(HOPS, (0.0, *known), known, strict=False):
            changes.hops[hop].append(end - start)
        changes.hops[LAST_HOP].append(total - known[-1])


def _times(log: Path, message: str) -> list[datetime]:
    found = []
    for line in log.read_text(errors="replace").splitlines():
        if f'"{message}"' in line:
            record = msgspec.json.decode(line)
            if record.get("msg") == message:
                found.append(datetime.fromisoformat(record["time"]))
    return found
