"""What operators have open all day: pages in three browsers, and `klm` in a terminal."""

import asyncio
import random
import statistics
import time
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

import httpx

from benchmarks.day.stage import Stage

PAGES = 3
FLEET_SECONDS, CLUSTER_SECONDS = 60.0, 15.0
KLM_SECONDS = 20.0
COMMANDS = (
    ("status",),
    ("get", "kymas"),
    ("get", "modules", "--state", "Warning"),
    ("explain", "KYMA"),
    ("trace", "KYMA"),
    ("events", "KYMA"),
    ("rollout", "list"),
)


@dataclass(eq=False)
class Used:
    """How long pages and commands took, and what failed, with the time."""

    seconds: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    failed: list[tuple[float, str]] = field(default_factory=list)
    updates: Counter[str] = field(default_factory=Counter)

    def summary(self) -> dict[str, dict[str, Any]]:
        """Return the median and the longest time of each, and how many updates the open pages received."""
        times = {
            what: {"count": len(each), "p50": round(statistics.median(each), 3), "worst": round(max(each), 3)}
            for what, each in sorted(self.seconds.items())
        }
        return {"times": times, "updates": dict(self.updates), "failed": Counter(what for _, what in self.failed)}


async def read_pages(stage: Stage, number: int, used: Used) -> None:
    """Read as a browser does, until cancelled: the fleet for some time, then a cluster, with live updates."""
    chance = random.Random(number)  # noqa: S311 - the same day each time
    headers = {"Authorization": f"Bearer {stage.operators_token}"}
    while True:
        if not (ports := stage.replicas.ready("page")):
            await asyncio.sleep(1)
            continue
        address = f"http://127.0.0.1:{chance.choice(ports)}"
        async with httpx.AsyncClient(base_url=address, headers=headers, timeout=30, trust_env=False) as client:
            try:
                await _look(client, "fleet", "/", "shown=-1", FLEET_SECONDS, used)
                if stage.joined:
                    kyma = chance.choice(sorted(stage.joined))
                    await _look(client, "cluster", f"/kymas/{kyma}", f"kyma={kyma}", CLUSTER_SECONDS, used)
            except httpx.HTTPError as error:
                used.failed.append((time.time(), f"page: {_what_failed(error)}"))
                await asyncio.sleep(1)


def _what_failed(error: httpx.HTTPError) -> str:
    if isinstance(error, httpx.HTTPStatusError):
        return f"{error.response.status_code} of {error.request.url.path.rpartition('/')[0]}"
    return type(error).__name__


async def _look(client: httpx.AsyncClient, what: str, path: str, live: str, seconds: float, used: Used) -> None:
    """Load a page and follow its updates for some time."""
    began = time.monotonic()
    answer = await client.get(path)
    if answer.status_code != 404:  # a cluster that has just left
        answer.raise_for_status()
    used.seconds[f"page {what}"].append(time.monotonic() - began)
    try:
        async with asyncio.timeout(seconds), client.stream("GET", f"/live?{live}") as stream:
            stream.raise_for_status()
            async for line in stream.aiter_lines():
                if line.startswith("event:"):
                    used.updates[f"{what} {line.partition(':')[2].strip()}"] += 1
    except TimeoutError:
        pass


async def use_klm(stage: Stage, used: Used) -> None:
    """Run one command after the other, until cancelled."""
    chance = random.Random(0)  # noqa: S311 - the same day each time
    while True:
        for command in COMMANDS:
            await asyncio.sleep(KLM_SECONDS)
            kyma = chance.choice(sorted(stage.joined))
            arguments = [kyma if each == "KYMA" else each for each in command]
            began = time.monotonic()
            try:
                result = await stage.klm(*arguments)
            except TimeoutError:
                used.failed.append((time.time(), f"klm {command[0]}: no end"))
                continue
            used.seconds[f"klm {command[0]}"].append(time.monotonic() - began)
            if result.code > 1 or (result.code and not result.text):
                used.failed.append((time.time(), f"klm {' '.join(command)}: {result.errors[-200:].strip()}"))
