"""Reads what `klm status` shows: the replicas, the releases, the Watchers, and then all Kymas, page by page."""

import asyncio
import io
import time
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from kube_runtime import Client, ObjectUnreadable
from kube_runtime.leases.lease import LEASES, Lease
from kyma_fleet.control_plane import require_control_plane
from kyma_fleet.documents import print_document
from kyma_fleet.overview.report import status_of
from kyma_fleet.overview.tally import Replica, Tally, rollouts_of
from kyma_fleet.screen import Screen, say
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, KYMAS, MODULE_ROLLOUTS, WATCHERS
from lifecycle_manager_api import names

GROUP = f"kube-runtime/group={names.LIFECYCLE_MANAGER}"
MIN_INTERVAL_SECONDS = 2.0
SHARE_OF_READING = 5
"""With --watch, a new pass begins after so many times the duration of the last one, so a large fleet costs no more."""
_HOME_AND_CLEAR = "\x1b[H\x1b[J"


async def status(kcp: Client, screen: Screen, lease_namespace: str, *, watch: bool) -> int:
    """Print how the fleet is, once or until Ctrl-C. Returns 1 where something is wrong."""
    while True:
        began = time.monotonic()
        tally, now = await read_tally(kcp, lease_namespace), datetime.now(UTC)
        if not tally.states:
            await require_control_plane(kcp)
        page = io.StringIO()
        found = status_of(tally, now)
        print_document(found, replace(screen, stream=page), is_one_of_many=watch)
        if watch and screen.width is not None and screen.form == "table":
            screen.stream.write(_HOME_AND_CLEAR)
        screen.stream.write(page.getvalue())
        screen.flush()
        if not watch:
            return 1 if found.wrong else 0
        took = time.monotonic() - began
        await asyncio.sleep(max(MIN_INTERVAL_SECONDS, SHARE_OF_READING * took))


async def read_tally(kcp: Client, lease_namespace: str) -> Tally:
    """Read and count the fleet. Raises KubeError."""
    leases, releases, rollouts, watchers = await asyncio.gather(
        kcp.list(LEASES, lease_namespace, label_selector=GROUP),
        kcp.list(DATED_RELEASE_METAS, names.KCP_NAMESPACE),
        kcp.list(MODULE_ROLLOUTS, names.KCP_NAMESPACE),
        kcp.list(WATCHERS, names.KCP_NAMESPACE),
    )
    tally = Tally(
        tuple(sorted(replicas_of(leases.items), key=lambda each: each.name)),
        rollouts_of(releases.items, rollouts.items),
        watchers.items,
    )
    return await count_kymas(kcp, tally)


async def count_kymas(kcp: Client, tally: Tally) -> Tally:
    """Count all Kymas in a tally, and return it. Raises KubeError."""
    async for page in kcp.pages(KYMAS, names.KCP_NAMESPACE, unreadable=_left_out):
        for kyma in page.items:
            tally.add(kyma)
    return tally


def replicas_of(leases: Iterable[Lease]) -> Iterable[Replica]:
    """Return the replicas that have a Lease."""
    for lease in leases:
        try:
            renewed = datetime.fromisoformat(lease.spec.renew_time or "")
        except ValueError:
            renewed = None
        yield Replica(
            lease.spec.holder_identity,
            renewed if renewed is None or renewed.tzinfo else renewed.replace(tzinfo=UTC),
            timedelta(seconds=lease.spec.lease_duration_seconds),
        )


def _left_out(error: ObjectUnreadable) -> None:
    say(f"left out: {error}")
