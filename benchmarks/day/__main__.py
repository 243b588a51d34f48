"""Runs a day of a fleet, and writes what it found: `python -m benchmarks.day --clusters 300 --real 1 --speed 60`.

All users' changes are timed from outside, in the clusters. The hours are compressed, the load in a second is not: 20
changes a second of 5,000 clusters are 20 in a second of the wall clock, for a shorter time.
"""

import argparse
import asyncio
import sys
import time
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import uvloop

from benchmarks.day import observing, report
from benchmarks.day.actions import ACTIONS, mistake
from benchmarks.day.clock import Clock
from benchmarks.day.documents import MANDATORY
from benchmarks.day.operators import PAGES, Used, read_pages, use_klm
from benchmarks.day.population import KCP
from benchmarks.day.prometheus import waits_of
from benchmarks.day.real import run_real_clusters
from benchmarks.day.script import entries_between
from benchmarks.day.stage import Stage, open_stage
from benchmarks.processes.fleet_documents import CONFIGURED
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import State

START_SECONDS, START_SECONDS_OF_A_CLUSTER = 600.0, 1.0
SAME_HOUR = 23.0
SERIES = ("count by (instance) ({job!=''})", "sum by (resource) (kube_runtime_informer_objects)")


def main() -> int:
    """Run the day; return 1 if a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=5_000, help="simulated clusters")
    parser.add_argument("--real", type=int, default=5, help="clusters with a real API server and a real Watcher")
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--replicas", type=int, default=2)
    parser.add_argument("--speed", type=float, default=12.0, help="how many hours pass in one")
    parser.add_argument("--begin", type=float, default=0.0, help="hour at which it begins")
    parser.add_argument("--hours", type=float, default=24.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="for logs and the report; default: a temporary one")
    options = parser.parse_args()
    folder = (options.folder or Path(mkdtemp(prefix="day-"))).absolute()
    folder.mkdir(parents=True, exist_ok=True)
    return uvloop.run(_run(options, folder))


async def _run(options: argparse.Namespace, folder: Path) -> int:
    async with (
        open_stage(
            folder,
            seed=options.seed,
            speed=options.speed,
            modules=options.modules,
            replicas=options.replicas,
        ) as stage,
        run_real_clusters(stage, options.real) as real,
    ):
        samples: list[observing.Sample] = []
        sampling = asyncio.ensure_future(observing.sample(stage, samples))
        began = time.time()
        await stage.join(options.clusters)
        async with asyncio.timeout(START_SECONDS + options.clusters * START_SECONDS_OF_A_CLUSTER):
            await eventually(lambda: _all_ready(stage), every=3)
        start = {"seconds": round(time.time() - began, 1), "peaks": observing.peaks(samples)}
        print(f"{options.clusters} clusters are ready after {start['seconds']} s", file=sys.__stderr__, flush=True)
        samples.clear()
        audit = (stage.clusters.kcp.directory / "audit.log").stat().st_size
        used = Used()
        day = Clock(
            stage,
            begin=options.begin,
            hours=options.hours,
            speed=options.speed,
            script=entries_between(options.begin, options.begin + options.hours),
            actions=ACTIONS,
            mistake=mistake,
        )
        stage.background += [
            asyncio.ensure_future(use_klm(stage, used)),
            *(asyncio.ensure_future(read_pages(stage, number, used)) for number in range(PAGES)),
            asyncio.ensure_future(real.follow_tokens()),
        ]
        people = asyncio.ensure_future(real.edit())
        await day.run()
        await asyncio.sleep(30)
        people.cancel()
        pending = await day.wait_for_pending()
        sampling.cancel()
        begin, end = day.began, time.time()
        alerts = await stage.prometheus.alerts(begin, end) if stage.prometheus is not None else []
        found = {
            # Those after the end of the script are of no whole hour.
            "samples": [each for each in samples if day.hour_of(float(each["at"])) < day.end],
            "touched": stage.touched,
            "kcp writes": list(observing.writes_to_kcp(stage, audit)),
            "alerts": alerts,
            "alerts wait": waits_of(),
            "series": await _series(stage, day) if stage.prometheus is not None else {},
            "operators": used.summary(),
            "operators failed": [f"{day.hour_of(at):.2f} {what}" for at, what in used.failed],
            "real": {
                "pending": real.pending,
                "late": real.late,
                "accesses": {name: len(each) for name, each in real.tokens.items()},
            },
            "cores by hour": observing.cores_by_hour(samples, day.hour_of),
            "options": {key: str(value) for key, value in vars(options).items()},
            "start": start,
            "day": {"began": day.began, "seconds": time.time() - day.began},
            "happened": day.happened,
            "left": sorted(stage.left | stage.leaving),
            "pending": pending
            + [{"cluster": name, "cut_off": False, "edited": at} for name, at in real.pending.items()],
            "wrong": await _wrong(stage),
            "not ready": await _not_ready(stage),
            "watchers": await stage.fleet.do("watchers"),
            "processes": observing.peaks(samples),
            "requests": observing.requests_of(stage, audit),
            "log": {name: dict(levels) for name, levels in observing.log_lines(stage).items()},
            "etcd MB": round((stage.clusters.etcd.directory / "etcd/member/snap/db").stat().st_size / 2**20, 1),
        }
        for task in stage.background:
            task.cancel()
        results = await asyncio.gather(*stage.background, people, sampling, return_exceptions=True)
        if broken := [each for each in results if isinstance(each, Exception)]:
            day.happened.append({"hour": options.hours, "does": "operators", "failed": repr(broken)[:500]})
    return report.write(folder, found, day.spans, day.hour_of)


async def _wrong(stage: Stage) -> dict[str, Any]:
    """Return which clusters do not have what their Kymas say."""
    kymas = (await stage.kcp.list(KYMAS, KCP)).items
    expected = {
        each.metadata.name: [
            *(module.name for module in each.status.modules if module.name != CONFIGURED),
            MANDATORY,
        ]
        for each in kymas
    }
    wrong: dict[str, Any] = (await stage.fleet.do("wrong", kymas=expected))["wrong"]
    unregistered = sorted(stage.joined - expected.keys())
    return wrong | ({"not registered": unregistered} if unregistered else {})


async def _series(stage: Stage, day: Clock) -> dict[str, dict[str, float]]:
    """Return how many objects and series each replica has, at the same hour of each day, and in the end."""
    assert stage.prometheus is not None
    found = {}
    hours = [SAME_HOUR + 24 * number for number in range(int(day.end // 24) + 1)]
    times = {f"hour {hour:g}": day.began + (hour - day.begin) * 3600 / day.speed for hour in hours}
    moments = {name: at for name, at in times.items() if day.began <= at <= time.time()}
    for what, at in (moments | {"end": time.time()}).items():
        for query in SERIES:
            found[f"{what}: {query}"] = await stage.prometheus.values(query, at)
    return found


async def _all_ready(stage: Stage) -> bool:
    return not await _not_ready(stage)


async def _not_ready(stage: Stage) -> dict[str, str]:
    """Return the Kymas that are not ready, with the first reason."""
    kymas = (await stage.kcp.list(KYMAS, KCP)).items
    return {
        each.metadata.name: "; ".join(
            f"{one.reason}: {one.message}" for one in each.status.conditions if one.status != "True"
        )
        for each in kymas
        if each.status.state is not State.READY
    }


if __name__ == "__main__":
    sys.exit(main())
