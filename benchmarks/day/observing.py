"""Samples the processes of a day from outside: CPU time, memory, open files; and counts requests by the audit log."""

import asyncio
import json
import time
from collections import Counter
from pathlib import Path

from benchmarks.day.stage import Stage
from benchmarks.peers.cpu_time import cpu_seconds
from kyma_local.processes import ChildProcess

SAMPLE_SECONDS = 5.0
AGENTS = {"kube-runtime": "Lifecycle Manager and Module Manager", "kube-controller-manager": "kube-controller-manager"}
Sample = dict[str, float | str]


async def sample(stage: Stage, samples: list[Sample]) -> None:
    """Sample all processes until cancelled."""
    while True:
        for name, child in _processes(stage).items():
            if (found := _sample_of(child)) is not None:
                samples.append({"at": time.time(), "process": name, **found})
        await asyncio.sleep(SAMPLE_SECONDS)


def _processes(stage: Stage) -> dict[str, ChildProcess]:
    servers = {each.name: each for each in (*stage.clusters.kcp.children, *stage.clusters.etcd.children)}
    return {each.name: each.child for each in stage.replicas.running} | servers | stage.children


def _sample_of(child: ChildProcess) -> dict[str, float] | None:
    """Return what a process uses, None when it has ended."""
    place = Path(f"/proc/{child.pid}")
    try:
        rss = int((place / "statm").read_text().split()[1]) * 4096 / 2**20
        return {"cpu": cpu_seconds(child.pid), "mb": rss, "files": float(len(list((place / "fd").iterdir())))}
    except OSError:
        return None


def peaks(samples: list[Sample]) -> dict[str, dict[str, float]]:
    """Return the most memory and files of each process, and the CPU time that it used while it was sampled."""
    found: dict[str, dict[str, float]] = {}
    for each in samples:
        most = found.setdefault(
            str(each["process"]), {"mb": 0.0, "files": 0.0, "first": float(each["cpu"]), "cpu": 0.0}
        )
        most["mb"] = round(max(most["mb"], float(each["mb"])), 1)
        most["files"] = max(most["files"], float(each["files"]))
        most["cpu"] = round(float(each["cpu"]) - most["first"], 1)
    return found


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
