"""A Prometheus that scrapes the replicas and evaluates the alerts of the chart, as an operator's does."""

import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from benchmarks.day.judging import Active
from benchmarks.day.replicas import Replica
from kube_runtime import dump_yaml, load_yaml
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child
from kyma_local.waiting import eventually
from tests.debian import find_program

RULES = Path(__file__).parents[2] / "charts" / "lifecycle-manager" / "files" / "alerts.yaml"
JOB = "lifecycle-manager-metrics"
STEP_SECONDS = 15
UNITS = {"s": 1, "m": 60, "h": 3600}


@dataclass(eq=False)
class Prometheus:
    """It runs; `targets` is the file with the replicas that it scrapes."""

    child: ChildProcess
    client: httpx.AsyncClient
    targets: Path

    def scrape(self, replicas: Sequence[Replica]) -> None:
        """Scrape these replicas from now on, as the endpoints of a Service follow its Pods."""
        found = [{"targets": [f"127.0.0.1:{each.metrics}"], "labels": {"instance": each.name}} for each in replicas]
        text = json.dumps(found)
        if not self.targets.exists() or self.targets.read_text() != text:
            new = self.targets.with_suffix(".new")
            new.write_text(text)
            new.rename(self.targets.with_suffix(".json"))

    async def values(self, query: str, at: float) -> dict[str, float]:
        """Return the values of a query at a time, by their labels."""
        answer = await self._ask("query", query=query, time=at)
        return {_labels(each["metric"]): float(each["value"][1]) for each in answer}

    async def alerts(self, begin: float, end: float) -> list[Active]:
        """Return when which alert was active, pending ones among them."""
        moments: dict[tuple[str, str], dict[float, bool]] = {}
        for each in await self._ask("query_range", query="ALERTS", start=begin, end=end, step=STEP_SECONDS):
            labels = {key: value for key, value in each["metric"].items() if key not in NOT_SHOWN}
            found = moments.setdefault((each["metric"]["alertname"], _labels(labels)), {})
            is_firing = each["metric"]["alertstate"] == "firing"
            found.update({at: is_firing or found.get(at, False) for at, _ in each["values"]})
        return [
            Active(name, labels, spell[0], spell[-1], fired=any(at[one] for one in spell))
            for (name, labels), at in moments.items()
            for spell in _spells(sorted(at))
        ]

    async def _ask(self, what: str, **parameters: Any) -> list[dict[str, Any]]:
        answer = await self.client.get(f"/api/v1/{what}", params=parameters)
        found: list[dict[str, Any]] = answer.raise_for_status().json()["data"]["result"]
        return found


NOT_SHOWN = frozenset({"__name__", "alertname", "alertstate", "severity", "instance", "job"})


@asynccontextmanager
async def run_prometheus(folder: Path) -> AsyncIterator[Prometheus]:
    """Run it with the chart's alerts. Raises NoPackage where there is none."""
    program = find_program("prometheus")
    targets, config = _configure(folder)
    address = f"127.0.0.1:{free_port()}"
    options = (f"--config.file={config}", f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address={address}")
    child = await start_child("prometheus", [str(program), *options], folder / "log")
    try:
        async with httpx.AsyncClient(base_url=f"http://{address}", timeout=60, trust_env=False) as client:
            await eventually(lambda: _is_ready(child, client), every=0.2)
            yield Prometheus(child, client, targets)
    finally:
        await child.stop()


def waits_of() -> dict[str, float]:
    """Return after how many seconds each alert of the chart fires."""
    (group,) = load_yaml(RULES.read_text())
    return {rule["alert"]: _seconds(rule.get("for", "0s")) for rule in group["rules"]}


def _configure(folder: Path) -> tuple[Path, Path]:
    """Write the configuration; return the files of the targets and of the configuration."""
    folder.mkdir(exist_ok=True)
    targets, rules, config = folder / "targets.json", folder / "alerts.yaml", folder / "prometheus.yaml"
    targets.write_text("[]")
    groups = load_yaml(RULES.read_text().replace("@job@", JOB))
    rules.write_text(dump_yaml({"groups": groups}))
    scraped = {"job_name": JOB, "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "5s"}]}
    interval = f"{STEP_SECONDS}s"
    times = {"scrape_interval": interval, "evaluation_interval": interval}
    config.write_text(dump_yaml({"global": times, "rule_files": [str(rules)], "scrape_configs": [scraped]}))
    return targets, config


async def _is_ready(child: ChildProcess, client: httpx.AsyncClient) -> bool:
    if child.returncode is not None:
        raise RuntimeError(f"Prometheus ended: {child.log.read_text()[-2000:]}")
    try:
        return (await client.get("/-/ready")).is_success
    except httpx.TransportError:
        return False


def _seconds(duration: str) -> float:
    return float(sum(int(number) * UNITS[unit] for number, unit in re.findall(r"(\d+)([smh])", duration)))


def _labels(metric: dict[str, str]) -> str:
    return ", ".join(f"{key}={value}" for key, value in sorted(metric.items()))


def _spells(times: Sequence[float]) -> list[list[float]]:
    """Divide times where one is missing."""
    found: list[list[float]] = []
    for at in times:
        if found and at - found[-1][-1] <= STEP_SECONDS * 1.5:
            found[-1].append(at)
        else:
            found.append([at])
    return found
