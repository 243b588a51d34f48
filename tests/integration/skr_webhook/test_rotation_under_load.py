"""A Watcher that sends without pause while certificates and CAs are replaced: nothing of it fails."""

import asyncio
import secrets
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from kyma_certs import CAs, KeyPair, announced, dropped, switched
from lifecycle_manager.events.endpoint import EndpointOptions
from skr_watcher.changes import ObjectChange
from skr_watcher.delivery import Delivery, Identity
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import Entry, Outbox
from skr_watcher.settings import SkrWatcherSettings
from tests.security.events.serving import ServedEndpoint, leaf, new_ca, now, write_files
from tests.waiting import eventually

RESYNC = ObjectChange("lifecycle-manager", "", "", "", "", "", "RESYNC", "", "", 0)
STRETCH = 60  # events that have to get through before the next thing is replaced


@dataclass(eq=False)
class BusyWatcher:
    """Sends changes of ever new objects, a few at a time."""

    endpoint: ServedEndpoint
    folder: Path
    sent: int = 0

    def mount(self, pair: KeyPair, trust: bytes) -> None:
        """Put other files in place, as the kubelet does."""
        write_files(self.folder / "watcher", pair, trust)

    @asynccontextmanager
    async def running(self) -> AsyncGenerator[None, None]:
        folder = self.folder / "watcher"
        settings = SkrWatcherSettings(
            tls_cert=folder / "tls.crt",
            tls_key=folder / "tls.key",
            ca_cert=folder / "ca.crt",
            kcp_address=self.endpoint.address,
        )
        outbox = Outbox(10_000)
        self.metrics = Metrics()
        delivery = Delivery(settings, outbox, Identity(settings), self.metrics)
        async with asyncio.TaskGroup() as tasks:
            working = [tasks.create_task(delivery.run()), tasks.create_task(self._feed(outbox))]
            yield
            working[1].cancel()
            await asyncio.wait_for(outbox.drained(), 60)
            working[0].cancel()

    async def stretch(self) -> None:
        """Wait until so many more events got through."""
        goal = len(self.endpoint.taken) + STRETCH
        await eventually(lambda: len(self.endpoint.taken) >= goal, what=f"{goal} events taken")
        assert self.failures() == {}

    def failures(self) -> dict[str, float]:
        """Return how often delivery failed, by why."""
        return {
            sample.labels["error_reason"]: sample.value
            for metric in self.metrics.registry.collect()
            for sample in metric.samples
            if sample.name == "watcher_failed_kcp_total"
        }

    async def _feed(self, outbox: Outbox) -> None:
        while True:
            await asyncio.sleep(0.002)
            if len(outbox) < 32:
                self.sent += 1
                change = ObjectChange(
                    "lifecycle-manager", "", "v1", "Thing", "ns", f"thing-{self.sent}", "UPDATE", "", "", 1
                )
                outbox.put(Entry(change, self.sent, time.time(), secrets.token_hex(16), ""))


async def test_no_event_fails_while_leaves_and_cas_are_replaced(tmp_path: Path) -> None:
    old, new = new_ca(), new_ca()
    alone = CAs(old)
    first = announced(alone, new, now=now())
    second = switched(first, now=now())
    last = dropped(second)
    options = EndpointOptions(require_peer=True, events_per_second=1e6, burst=1_000_000)
    endpoint = ServedEndpoint(tmp_path, alone, options, delay_seconds=0.02)  # so that requests are under way
    watcher = BusyWatcher(endpoint, tmp_path)
    pair = leaf(old, "mine")
    watcher.mount(pair, alone.trusted)
    async with endpoint.served(), watcher.running():
        await watcher.stretch()
        for _ in range(3):
            pair = leaf(old, "mine")
            watcher.mount(pair, alone.trusted)
            await watcher.stretch()
        await endpoint.adopt(alone)  # the endpoint's own certificate is renewed
        await watcher.stretch()
        await endpoint.adopt(first)
        await watcher.stretch()
        watcher.mount(pair, first.trusted)
        await watcher.stretch()
        await endpoint.adopt(second)
        await watcher.stretch()
        replaced = leaf(new, "mine")
        watcher.mount(replaced, second.trusted)
        await watcher.stretch()
        await endpoint.adopt(last)
        await watcher.stretch()
        watcher.mount(replaced, last.trusted)
        await watcher.stretch()
    assert watcher.failures() == {}
    assert endpoint.refused == []
    assert len(endpoint.taken) == watcher.sent


async def test_files_that_are_caught_half_written_only_delay_the_change(tmp_path: Path) -> None:
    ca = new_ca()
    options = EndpointOptions(require_peer=True, events_per_second=1e6, burst=1_000_000)
    endpoint = ServedEndpoint(tmp_path, CAs(ca), options)
    watcher = BusyWatcher(endpoint, tmp_path)
    former, following = leaf(ca, "mine"), leaf(ca, "mine")
    watcher.mount(former, ca.certificate_pem)
    async with endpoint.served(), watcher.running():
        await watcher.stretch()
        watcher.mount(KeyPair(following.certificate_pem, former.key_pem), ca.certificate_pem)
        await watcher.stretch()
        watcher.mount(following, ca.certificate_pem)
        await watcher.stretch()
    assert watcher.failures() == {}
