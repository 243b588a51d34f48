"""Tests that none of many changes is missed, with the control plane unavailable and the Watcher killed twice.

This program is the API server and the control plane in one: it sends an admission request for each change before it
stores it, stores it whatever the answer is, as the webhook's failurePolicy says, and reads an object when an event
names it, or all objects after a RESYNC. In the end the objects that were read have to be equal to the stored ones.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvloop

from benchmarks.figures import Figure
from tests.waiting import eventually
from tests.watcher_process import Connection, ControlPlane, Watcher, review, serving, start_watcher

CONNECTIONS = 8
OBJECTS = 10_000
READ_AFTER_SECONDS = 0.2
TIMEOUT_SECONDS = 600.0


@dataclass(eq=False)
class Cluster:
    """The stored version of each object, and the version that the control plane has read."""

    stored: dict[str, int] = field(default_factory=dict)
    read: dict[str, int] = field(default_factory=dict)
    changes: int = 0
    unanswered: int = 0

    @property
    def unread(self) -> int:
        """How many objects are stored in another version than the one that was read."""
        return sum(self.read.get(name) != version for name, version in self.stored.items())


class ReadingControlPlane(ControlPlane):
    """Reads the object of an event after a moment, as the Lifecycle Manager reads until it sees the change."""

    cluster: Cluster

    def take(self, event: dict[str, Any]) -> None:
        """Read one object, or all of them."""
        super().take(event)
        asyncio.get_running_loop().call_later(READ_AFTER_SECONDS, self._read, event)

    def _read(self, event: dict[str, Any]) -> None:
        if event["operation"] == "RESYNC":
            self.cluster.read.update(self.cluster.stored)
        elif event["operation"] == "UPDATE":
            name = event["watched"]["Name"]
            self.cluster.read[name] = self.cluster.stored[name]


def main() -> int:
    """Measure and print; return 1 if a change was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--changes", type=int, default=100_000)
    parser.add_argument("--away", type=float, default=60.0, help="seconds for which the control plane is unavailable")
    arguments = parser.parse_args()
    return uvloop.run(measure(arguments.changes, arguments.away))


async def measure(changes: int, away: float) -> int:
    """Change objects until all faults are over, then wait until every object was read in its last version."""
    cluster, started = Cluster(), time.monotonic()
    with tempfile.TemporaryDirectory(prefix="watcher-bench-") as directory:
        folder = Path(directory)
        async with AsyncExitStack() as stack:
            control_plane = ReadingControlPlane()
            control_plane.cluster = cluster
            watcher = await start_watcher(stack, folder, control_plane.port, {})
            async with asyncio.TaskGroup() as tasks:
                faults_over = asyncio.Event()
                faults = tasks.create_task(_faults(stack, folder, control_plane, watcher, away, faults_over))
                async with asyncio.TaskGroup() as changing:
                    for _ in range(CONNECTIONS):
                        changing.create_task(_changes(cluster, watcher.admission_port, changes, faults_over))
                await eventually(lambda: not cluster.unread, within=TIMEOUT_SECONDS, every=0.2)
                faults.cancel()
            resyncs = len(control_plane.reported("RESYNC"))
    print(
        f"{cluster.unanswered} changes met no Watcher; {resyncs} RESYNCs; {len(control_plane.events)} events",
        file=sys.stderr,
    )
    Figure(
        name="watcher_changes_missed",
        unit="objects",
        value=cluster.unread,
        peer=f"changes, in {time.monotonic() - started:.0f} s, the control plane unavailable for {away:g} s",
        peer_value=cluster.changes,
        bar="none",
        met=cluster.unread == 0,
    ).print()
    return int(cluster.unread > 0)


async def _changes(cluster: Cluster, port: int, changes: int, faults_over: asyncio.Event) -> None:
    """Change objects until there were enough changes and all faults are over."""

    def enough() -> bool:
        return cluster.changes >= changes and faults_over.is_set()

    while not enough():
        try:
            async with Connection.to(port) as connection:
                while not enough():
                    await _change(cluster, connection)
        except (OSError, asyncio.IncompleteReadError):
            await asyncio.sleep(0.01)  # the Watcher is restarting


async def _faults(
    stack: AsyncExitStack,
    folder: Path,
    control_plane: ControlPlane,
    watcher: Watcher,
    away: float,
    faults_over: asyncio.Event,
) -> None:
    """Kill the Watcher once while the control plane is available and once while it is not; then make it available."""
    async with serving(control_plane, folder):
        await asyncio.sleep(away / 6)
        watcher = await _killed(stack, folder, control_plane, watcher)
    await asyncio.sleep(away / 2)
    await _killed(stack, folder, control_plane, watcher)
    await asyncio.sleep(away / 2)
    async with serving(control_plane, folder):
        faults_over.set()
        await asyncio.Event().wait()


async def _killed(stack: AsyncExitStack, folder: Path, control_plane: ControlPlane, watcher: Watcher) -> Watcher:
    await watcher.process.kill()
    return await start_watcher(stack, folder, control_plane.port, {}, admission_port=watcher.admission_port)


async def _change(cluster: Cluster, connection: Connection) -> None:
    """Send the admission request, then store the change whatever the answer is."""
    cluster.changes += 1
    name, version = f"object-{cluster.changes % OBJECTS}", cluster.changes
    try:
        await connection.post(review(name, spec=version + 1))
    except (OSError, asyncio.IncompleteReadError):
        cluster.unanswered += 1
        raise
    finally:
        cluster.stored[name] = version


if __name__ == "__main__":
    sys.exit(main())
