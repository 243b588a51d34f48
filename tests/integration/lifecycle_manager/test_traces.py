"""One user's change is one trace across the Watcher, the Lifecycle Manager and the Module Manager."""

import os
import re
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import count, pairwise
from pathlib import Path

import httpx
import pytest
import pytest_asyncio
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from kyma_demo.walkthrough import Walkthrough
from tests.integration.lifecycle_manager.event_path import is_watcher_ready
from tests.integration.lifecycle_manager.programs import MANAGER, Manager, manager_with, with_options
from tests.klm import run_klm
from tests.otlp import Collector, ReceivedSpan, collector
from tests.serving import WITHOUT_TLS
from tests.waiting import eventually

WATCHER, MODULE_MANAGER = "skr-watcher", "module-manager"
CHANGE = (
    (WATCHER, "admission"),
    (WATCHER, "delivery"),
    (MANAGER, "verification"),
    (MANAGER, "reconcile module-config"),
    (MANAGER, "WriteToKcp"),
    (MODULE_MANAGER, "reconcile module-manager-cloud-resources"),
    (MANAGER, "reconcile sync-resource"),
    (MANAGER, "reconcile module-cr-status"),
)
"""The stations of a change: each continues the one before."""
PARTS = {
    (MANAGER, "ReadModuleCrs"): {"GET infrastructures"},
    (MANAGER, "WriteToKcp"): {"PATCH moduleconfigs"},
    (MODULE_MANAGER, "reconcile module-manager-cloud-resources"): {"render", "PATCH syncresources"},
    (MANAGER, "reconcile sync-resource"): {"ApplyObjects"},
    (MANAGER, "ApplyObjects"): {"PATCH persistentvolumes"},
}
"""What is measured within them."""
LATENCIES = ("event_taken", "module_config_written", "sync_resource_applied")
STATUS = "PATCH infrastructures/status"


@dataclass(frozen=True, slots=True)
class Traced:
    """The programs send every trace to `collector`."""

    collector: Collector
    manager: Manager


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def traced(walkthrough: Walkthrough) -> AsyncIterator[Traced]:
    """All programs send every trace, and answer on debug sockets."""
    programs = walkthrough.programs
    with collector() as received:
        options = (f"--otlp-endpoint={received.endpoint}", "--trace-sampling-ratio=1")
        variables = {"OTLP_ENDPOINT": received.endpoint, "TRACE_SAMPLING_RATIO": "1"}
        sockets = {name: str(socket_of(walkthrough, name)) for name in (MANAGER, WATCHER, MODULE_MANAGER)}
        others = {name: programs.started[name] for name in (WATCHER, MODULE_MANAGER)}
        async with manager_with(programs, *options, f"--debug-socket={sockets[MANAGER]}") as manager:
            await programs.start(with_options(others[WATCHER], **variables, DEBUG_SOCKET=sockets[WATCHER]))
            debug_option = f"--debug-socket={sockets[MODULE_MANAGER]}"
            await programs.start(with_options(others[MODULE_MANAGER], *options, debug_option))
            await eventually(lambda: is_watcher_ready(walkthrough.environment))
            yield Traced(received, manager)
            for program in others.values():
                await programs.start(program)


async def test_change_is_one_trace_with_each_station_below_the_one_before(
    traced: Traced, walkthrough: Walkthrough
) -> None:
    sizes = count(301)

    def whole() -> list[ReceivedSpan] | None:
        found = [spans for spans in traced.collector.traces().values() if _stations(spans) and _part(spans, STATUS)]
        return found[0] if found else None

    async def whole_after_a_change() -> list[ReceivedSpan] | None:
        """A busy API server may allow a change without the Watcher; then it is found at the interval, by no trace."""
        if whole() is None:
            await walkthrough.change_volume(f"{next(sizes)}Gi")
        return whole()

    spans = await eventually(whole_after_a_change, within=180, every=2.0, what="a whole trace")
    by_id = {each.span_id: each for each in spans}
    stations = _stations(spans)
    for before, after in pairwise(stations):
        assert by_id[after.parent_id] == before
        assert after.began >= before.began
    assert stations[0].parent_id == ""
    for (service, name), parts in PARTS.items():
        children = {
            each.name for each in spans for parent in [by_id.get(each.parent_id)] if parent and parent.name == name
        }
        assert parts <= children, (service, name, children)
    assert not [each for each in spans if each.failed]
    assert stations[0].attributes["kind"] == "Infrastructure"


@pytest.mark.parametrize("program", [MANAGER, WATCHER, MODULE_MANAGER])
async def test_each_program_answers_on_its_debug_socket(traced: Traced, walkthrough: Walkthrough, program: str) -> None:
    path = socket_of(walkthrough, program)
    answers = {command: await _debugged(path, command) for command in ("tasks", "stacks", "queues", "loop")}

    queue = {MANAGER: "module-config: ", WATCHER: "outbox: ", MODULE_MANAGER: "module-manager-cloud-resources: "}
    assert queue[program] in answers["queues"]
    assert "(event loop)" in answers["stacks"]
    assert "uvloop.Loop" in answers["loop"]
    assert ".py:" in answers["tasks"]
    assert await _debugged(path, "log-level", "DEBUG") == "DEBUG\n"
    log = walkthrough.environment.logs / f"{program}.log"
    await eventually(lambda: "the log level is DEBUG now" in log.read_text(errors="replace"))
    assert await _debugged(path, "log-level", "INFO") == "INFO\n"
    programs = walkthrough.programs
    kubeconfigs = programs.manager_kubeconfig.read_text() + programs.module_kubeconfig.read_text()
    tokens = re.findall(r"token: (\S{20,})", kubeconfigs)
    assert tokens
    for answer in answers.values():
        assert not [each for each in ("PRIVATE KEY", *tokens) if each in answer]


async def test_latency_of_a_change_names_its_trace_for_who_accepts_open_metrics(
    traced: Traced, walkthrough: Walkthrough
) -> None:
    await walkthrough.change_volume("303Gi")
    url = f"http://127.0.0.1:{traced.manager.metrics_port}/metrics"

    async def exemplars() -> set[tuple[str, str]] | None:
        async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False, timeout=60) as client:
            answer = await client.get(url, headers={"Accept": "application/openmetrics-text;version=1.0.0"})
        families = text_string_to_metric_families(answer.text)  # type: ignore[no-untyped-call]
        samples = [each for family in families for each in family.samples if each.exemplar]
        found = {(each.name, each.exemplar.labels["trace_id"]) for each in samples if each.exemplar}
        return found if {name for name, _ in found} == stations else None

    stations = {f"lifecycle_mgr_change_to_{each}_seconds_bucket" for each in LATENCIES}
    found = await eventually(exemplars)
    await eventually(lambda: {trace_id for _, trace_id in found} <= traced.collector.traces().keys())


def socket_of(walkthrough: Walkthrough, program: str) -> Path:
    """Return where a program answers."""
    return walkthrough.environment.directory / f"{program}.sock"


async def _debugged(path: Path, *command: str) -> str:
    """Ask by `klm debug`, which needs no kubeconfig."""
    output = await run_klm(Path(os.devnull), "debug", *command, "--socket", str(path))
    assert output.code == 0, output
    return output.text


def _part(spans: list[ReceivedSpan], name: str) -> bool:
    return any(each.name == name for each in spans)


def _stations(spans: list[ReceivedSpan]) -> list[ReceivedSpan]:
    """Return the stations of a whole change, each of them the child of the one before; none for another trace."""
    path: list[ReceivedSpan] = []
    for service, name in CHANGE:
        above = path[-1].span_id if path else ""
        found = [each for each in spans if (each.service, each.name, each.parent_id) == (service, name, above)]
        if not found:
            return []
        path.append(found[-1])
    return path
