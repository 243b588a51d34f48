"""Samples the processes of a day from outside: CPU time, memory, open files; and counts requests by the audit log."""

import asyncio
import itertools
import json
import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

from benchmarks.day.stage import Stage
from benchmarks.peers.cpu_time import cpu_seconds
from kyma_diagnostics.debug_client import DebugFailed, ask

SAMPLE_SECONDS = 5.0
TASKS_EVERY = 6
GROUPS = ("lifecycle-manager", "kube-apiserver", "etcd")
NOT_JUDGED = frozenset({"events", "leases", "tokenreviews", "subjectaccessreviews", "selfsubjectaccessreviews"})
"""What is written for other reasons than the fleet: of them none is judged."""
KYMA = re.compile(r"(?:kubeconfig-)?((?:kyma|real)-\d+)(?:-|$)")
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})
AGENTS = {"kube-runtime": "Lifecycle Manager and Module Manager", "kube-controller-manager": "kube-controller-manager"}
Sample = dict[str, float | str]


async def sample(stage: Stage, samples: list[Sample]) -> None:
    """Sample all processes until cancelled."""
    for number in itertools.count():
        for name, pid in _processes(stage).items():
            if (found := _sample_of(pid)) is not None:
                samples.append({"at": time.time(), "process": name, **found})
        for each in list(stage.replicas.running) if number % TASKS_EVERY == 0 else ():
            with suppress(DebugFailed):  # it has just been started or ended
                text = await asyncio.to_thread(ask, each.debug, "tasks")
                samples.append({"at": time.time(), "process": each.name, "tasks": float(text.split()[0])})
        if stage.prometheus is not None:
            stage.prometheus.scrape(stage.replicas.running)
        await asyncio.sleep(SAMPLE_SECONDS)


def _processes(stage: Stage) -> dict[str, int]:
    children = [*stage.clusters.kcp.children, *stage.clusters.etcd.children, *stage.children.values()]
    children += [each.child for each in stage.replicas.running]
    if stage.prometheus is not None:
        children.append(stage.prometheus.child)
    own = {"this program": os.getpid(), "simulated clusters": stage.fleet.process.pid}
    return {each.name: each.pid for each in children} | own


def _sample_of(pid: int) -> dict[str, float] | None:
    """Return what a process uses, None when it has ended."""
    place = Path(f"/proc/{pid}")
    try:
        rss = int((place / "statm").read_text().split()[1]) * 4096 / 2**20
        return {"cpu": cpu_seconds(pid), "mb": rss, "files": float(len(list((place / "fd").iterdir())))}
    except OSError:
        return None


def peaks(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Return the most memory and files of each process, and the CPU time that it used while it was sampled."""
    found: dict[str, dict[str, float]] = {}
    for each in (each for each in samples if "cpu" in each):
        most = found.setdefault(str(each["process"]), {"mb": 0.0, "files": 0.0, "cpu": 0.0})
        most["mb"] = round(max(most["mb"], float(each["mb"])), 1)
        most["files"] = max(most["files"], float(each["files"]))
    for name, _, spent in _spent(samples):
        found[name]["cpu"] = round(found[name]["cpu"] + spent, 1)
    return found


def _spent(samples: list[Sample]) -> Iterator[tuple[str, float, float]]:
    """Yield which process used how much CPU time between two samples, and the time of the second."""
    before: dict[str, float] = {}
    for each in (each for each in samples if "cpu" in each):
        name, cpu = str(each["process"]), float(each["cpu"])
        spent = cpu - before.get(name, cpu)
        before[name] = cpu
        yield name, float(each["at"]), spent if spent >= 0 else cpu  # another process of that name


def cores_by_hour(samples: list[Sample], hour_of: Callable[[float], float]) -> dict[int, dict[str, float]]:
    """Return the cores that Lifecycle Manager and the servers of the control plane used, by hour of the day."""
    used: defaultdict[int, defaultdict[str, float]] = defaultdict(lambda: defaultdict(float))
    for name, at, spent in _spent(samples):
        group = next((each for each in GROUPS if name.startswith(each)), "others")
        used[int(hour_of(at))][group] += spent
    seconds = 3600 / (hour_of(3600.0) - hour_of(0.0))
    return {
        hour: {group: round(spent[group] / seconds, 3) for group in (*GROUPS, "others")}
        for hour, spent in sorted(used.items())
    }


def requests_of(stage: Stage, begin: int) -> dict[str, dict[str, int]]:
    """Return the requests to the control plane by agent, verb and resource, from a position of its audit log on."""
    found: dict[str, Counter[str]] = {}
    with (stage.clusters.kcp.directory / "audit.log").open("rb") as log:
        log.seek(begin)
        for line in log:
            event = json.loads(line)
            if event["stage"] == "ResponseComplete":
                agent = event.get("userAgent", "").partition("/")[0]
                reference = event.get("objectRef") or {}
                what = "/".join(filter(None, (reference.get("resource", "other"), reference.get("subresource"))))
                found.setdefault(AGENTS.get(agent, agent), Counter())[f"{event['verb']} {what}"] += 1
    return {agent: dict(counts.most_common(25)) for agent, counts in found.items()}


def writes_to_kcp(stage: Stage, begin: int) -> Iterator[dict[str, Any]]:
    """Yield what Lifecycle Manager and the Module Manager wrote to the control plane, of a cluster or of none."""
    with (stage.clusters.kcp.directory / "audit.log").open("rb") as log:
        log.seek(begin)
        for line in log:
            event = json.loads(line)
            reference = event.get("objectRef") or {}
            kind = reference.get("resource", "")
            is_ours = event.get("userAgent", "").startswith("kube-runtime") and event["verb"] in WRITES
            is_done = event["stage"] == "ResponseComplete" and event["responseStatus"]["code"] < 300
            if is_done and is_ours and kind not in NOT_JUDGED and "dryRun=" not in event["requestURI"]:
                found = KYMA.match(reference.get("name", ""))
                yield {
                    "at": datetime.fromisoformat(event["requestReceivedTimestamp"]).timestamp(),
                    "cluster": found[1] if found else "",
                    "verb": event["verb"],
                    "kind": "/".join(filter(None, (kind, reference.get("subresource")))),
                    "name": reference.get("name", ""),
                }


def log_lines(stage: Stage) -> dict[str, Counter[str]]:
    """Return the lines in the logs of all replicas, by level."""
    found = {}
    for replica in (*stage.replicas.running, *stage.replicas.retired):
        levels: Counter[str] = Counter()
        for line in replica.child.log.read_text(errors="replace").splitlines():
            try:
                levels[str(json.loads(line).get("level", "none"))] += 1
            except ValueError:
                levels["not JSON"] += 1
        found[replica.name] = levels
    return found
