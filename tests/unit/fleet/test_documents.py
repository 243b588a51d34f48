"""What commands print: each can print it as a document, whose keys are in camelCase and stay as they are."""

import io
import json
import os
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from msgspec import inspect
from typer.core import TyperGroup
from typer.main import get_command

from kube_runtime import load_documents, load_yaml
from kyma_fleet.bundle.command import BundleReport
from kyma_fleet.checking.command import CheckReport, VersionReport
from kyma_fleet.checking.findings import Finding
from kyma_fleet.comparison import ClusterComparison
from kyma_fleet.documents import Document, print_document
from kyma_fleet.explanation.command import KymaEvents, KymaExplanation
from kyma_fleet.images import Images
from kyma_fleet.listing.formats import output_for
from kyma_fleet.listing.kinds import KINDS, beside, kind_named
from kyma_fleet.listing.selection import Selection
from kyma_fleet.preview import ReleasePreview
from kyma_fleet.rollouts import TITLES, WAVE_TITLES, RolloutList, RolloutStatus
from kyma_fleet.screen import LiveTable, Screen
from kyma_fleet.status import FleetStatus
from kyma_fleet.steering import ChangeReport
from kyma_fleet.timeline import Timeline
from lifecycle_manager.cli import app
from lifecycle_manager.rollout.standing import RolloutStanding, standings
from tests.klm import KLM
from tests.unit.fleet_page.rollouts import LATER, TIME, rollout

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
RUNS = "prints its progress while it runs"
WITHOUT_OUTPUT = {
    "run": RUNS,
    "ui": "prints the address of the page",
    "debug": "prints the answer of the program that it asks",
    "crds": "prints documents in any case",
    **dict.fromkeys(("join", "leave", "local up", "module new", "module run", "module package", "playground"), RUNS),
    **dict.fromkeys(("local down", "local binaries", "local helm"), "prints a path"),
    "module validate": "prints a line for each problem",
    "module update": "prints the differences",
    "module policy": "prints a document in any case",
    "local kubectl": "prints what kubectl prints",
    "help": "prints the help",
}
KEYS = {
    FleetStatus: "at kymas states paused modules rollouts causes faults replicas wrong nextCommand",
    KymaExplanation: "at kyma chains events about",
    KymaEvents: "at kyma events",
    Timeline: "kyma writes traceId reached",
    CheckReport: "findings",
    VersionReport: "klm lifecycleManager apiServer",
    RolloutList: "at items standings",
    RolloutStatus: "rollout standing",
    ReleasePreview: "release sums lacksWindows waves clusters",
    ClusterComparison: "kyma objects",
    BundleReport: "file writtenAt files missing",
    ChangeReport: "message objects",
    Images: "images",
}


def commands(command: Any, *words: str) -> Iterator[tuple[str, Any]]:
    if isinstance(command, TyperGroup):
        for name in command.commands:
            yield from commands(command.commands[name], *words, name)
    else:
        yield " ".join(words), command


@pytest.mark.parametrize(("name", "command"), list(commands(get_command(app))))
def test_each_command_that_prints_has_formats(name: str, command: Any) -> None:
    has_formats = any("-o" in each.opts for each in command.params)
    assert has_formats != (name in WITHOUT_OUTPUT), f"{name}: give it the option Output, or name a reason here"


def keys_in(kind: Any) -> Iterator[str]:
    """Yield the keys of a type and of all types within it."""
    match kind:
        case inspect.StructType() | inspect.DataclassType():
            yield from (each.encode_name for each in kind.fields)
            yield from (key for each in kind.fields for key in keys_in(each.type))
        case inspect.UnionType():
            yield from (key for each in kind.types for key in keys_in(each))
        case inspect.VarTupleType() | inspect.ListType():
            yield from keys_in(kind.item_type)
        case inspect.DictType():
            yield from keys_in(kind.value_type)


def test_every_document_is_tested() -> None:
    assert {each for each in Document.__subclasses__() if each.__module__.startswith("kyma_fleet")} == KEYS.keys()


@pytest.mark.parametrize("kind", KEYS, ids=lambda kind: kind.__name__)
def test_keys_of_documents_stay_and_are_written_as_those_of_kubernetes(kind: type[Document]) -> None:
    assert [each.encode_name for each in msgspec.structs.fields(kind)] == KEYS[kind].split()
    assert [each for each in keys_in(inspect.type_info(kind)) if "_" in each or each[0].isupper()] == []


REPORT = CheckReport(findings=(Finding("ok", "API", "serves"), Finding("bad", "module policy", "\x1b[2J\x9b", "do")))


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_documents_are_read_back_and_steer_no_terminal(form: str) -> None:
    stream = io.StringIO()
    print_document(REPORT, Screen(stream=stream, form=form))
    document = load_yaml(stream.getvalue())
    assert document["kind"] == "CheckReport"
    assert [each["mark"] for each in document["findings"]] == ["ok", "bad"]
    assert not {"\x1b", "\x9b"} & set(stream.getvalue())


def test_documents_of_a_watch_are_lines_of_json_or_a_stream_of_yaml() -> None:
    printed = {"json": io.StringIO(), "yaml": io.StringIO()}
    for form, stream in printed.items():
        for _ in range(2):
            print_document(REPORT, Screen(stream=stream, form=form), is_one_of_many=True)
    assert [json.loads(line)["kind"] for line in printed["json"].getvalue().splitlines()] == ["CheckReport"] * 2
    assert len(list(load_documents(printed["yaml"].getvalue()))) == 2


def test_names_are_printed_once_each() -> None:
    stream = io.StringIO()
    print_document(REPORT, Screen(stream=stream, form="name"))
    assert stream.getvalue() == "check/module-policy\n"


NAMES = {"NAME": "3f0c2f7e-5d3f-4a8e-9a57-0d6a3f4b7f11", "KYMA": "3f0c2f7e-5d3f-4a8e-9a57-0d6a3f4b7f11"}
TABLES = [*((*each.columns.titles,) for each in KINDS), TITLES, WAVE_TITLES]


@pytest.mark.parametrize("titles", TABLES, ids=" ".join)
def test_tables_fit_80_columns_with_all_of_their_titles(titles: tuple[str, ...]) -> None:
    stream = io.StringIO()
    table = LiveTable(Screen(width=80, stream=stream), titles)
    table.print([tuple(NAMES.get(each, "Processing") for each in titles)])
    lines = stream.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    assert [each for each in titles if each not in lines[0]] == []


@pytest.mark.parametrize("standings", [{}, {"held": 0, "unreachable": 0}])
def test_status_of_a_rollout_fits_80_columns_and_names_the_first_cause(standings: dict[str, int]) -> None:
    cause = "Deployment kyma-system/keda-operator: container keda-operator needs 2Gi of memory, the node has 1Gi"
    halted = rollout(failed={"kyma-00007": cause})
    waves = tuple(msgspec.structs.replace(each, **standings) for each in halted.status.waves)
    stream = io.StringIO()
    shown = msgspec.structs.replace(halted, status=msgspec.structs.replace(halted.status, waves=waves))
    RolloutStatus(rollout=shown, standing=RolloutStanding("Halted")).print_table(Screen(width=80, stream=stream))
    header, table, _failed = stream.getvalue().split("\n\n")
    assert f"kyma-00007 failed first: {cause}" in header
    assert "…" not in table
    assert [line.split()[0] for line in table.splitlines()] == ["WAVE", "canary", "europe", "remaining"]
    assert ("HELD" in table, "AWAY" in table) == (not standings, not standings)


def test_every_command_has_the_same_words_for_a_rollout_that_was_taken_back() -> None:
    spec = {"version": "2.0.0", "formerVersion": "1.0.0"}
    undone = rollout("keda", phase="Superseded", message="its channel has another version, or is gone", spec=spec)
    back = rollout(
        "keda",
        revision=3,
        phase="Completed",
        failed={},
        spec={"undoes": "keda-regular-2", "version": "1.0.0", "formerVersion": "2.0.0"},
    )
    words = standings([undone, back])
    stream = io.StringIO()
    screen = Screen(stream=stream)
    RolloutStatus(rollout=undone, standing=words[undone.metadata.name]).print_table(screen)
    how = "TakenBack: 2.0.0 was taken back by keda-regular-3, which returns to 1.0.0."
    assert stream.getvalue().splitlines()[1].strip() == how

    stream.truncate(0)
    RolloutList(at=NOW, items=(undone, back), standings=tuple(words.values())).print_table(screen)
    lines = stream.getvalue().splitlines()
    assert [line.split()[2] for line in lines[1:3]] == ["TakenBack", "Completed"]
    assert lines[3:] == ["keda-regular-3 took 2.0.0 of keda-regular-2 back: 1.0.0 is in force"]

    stream.truncate(0)
    listed = kind_named("rollouts")
    assert listed is not None
    kind = beside([undone, back], listed)
    output_for(kind, Selection(), screen, watch=False).page([undone, back], NOW)
    assert [line.split()[1] for line in stream.getvalue().splitlines()[1:]] == ["TakenBack", "Completed"]


def test_wave_with_too_many_failures_is_neither_done_nor_soaking() -> None:
    failing = {"name": "canary", "clusters": 1, "failed": 1, "startedAt": TIME, "settledAt": TIME}
    halted = rollout(waves=[failing, LATER])
    stream = io.StringIO()
    RolloutStatus(rollout=halted, standing=RolloutStanding("Halted")).print_table(Screen(width=80, stream=stream))
    states = [line.split()[-1] for line in stream.getvalue().split("\n\n")[1].splitlines()]
    assert states == ["STATE", "failed", "waiting"]


def test_reader_of_the_output_that_has_ended_is_no_error() -> None:
    """As in `klm images | head -1`, whose last lines are written when klm ends."""
    reading, writing = os.pipe()
    os.close(reading)
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONUNBUFFERED"}
    done = subprocess.run([KLM, "images"], stdout=writing, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (0, b"")
