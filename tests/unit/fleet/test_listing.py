"""`klm get`: what is selected, which rows there are, and how they are written."""

import io
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from kube_runtime import load_yaml
from kyma_fleet.listing.command import check_filters
from kyma_fleet.listing.formats import output_for
from kyma_fleet.listing.kinds import KINDS, PAUSED_KYMAS, ListedKind, kind_named
from kyma_fleet.listing.names import SHORT_NAMES
from kyma_fleet.listing.selection import Selection
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager_api import Kyma, as_document, names
from tests import builders
from tests.builders import module_status

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PAUSE = {
    f"{names.GROUP}/paused-by": "ada@example.com",
    f"{names.GROUP}/paused-at": "2026-11-22T10:00:00+00:00",
    f"{names.GROUP}/paused-reason": "incident 42",
}


def listed(name: str = "demo", *modules: dict[str, Any], state: str = "Ready", **metadata: Any) -> Kyma:
    status = {"state": state, "modules": list(modules)}
    return builders.kyma(name, status=status, creationTimestamp="2026-11-20T12:00:00Z", **metadata)


def written(
    kind: ListedKind[Any],
    *items: Any,
    output: str = "table",
    width: int | None = None,
    colour: bool = False,
    **asked: Any,
) -> str:
    stream, selection = io.StringIO(), Selection(**asked)
    writer = output_for(kind, selection, Screen(colour, width, stream, output), watch=False)
    writer.page([as_document(each) for each in items] if writer.raw else items, NOW)
    writer.end()
    return stream.getvalue()


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({}, True),
        ({"state": "Ready"}, True),
        ({"state": "Error"}, False),
        ({"module": "keda"}, True),
        ({"module": "keda", "version": "1.0.0"}, True),
        ({"module": "istio", "version": "1.0.0"}, False),
        ({"channel": "regular"}, True),
        ({"channel": "fast"}, True),
        ({"module": "keda", "channel": "fast"}, False),
        ({"version": "9.9.9"}, False),
    ],
)
def test_kymas_are_selected_by_their_state_and_by_one_of_their_modules(asked: dict[str, Any], *, found: bool) -> None:
    item = listed("demo", module_status(), module_status("istio", "2.0.0", channel="fast"))
    assert Selection(**asked).of_kyma(item) is found


def test_labels_are_selected_by_the_api_server() -> None:
    wanted = Selection(region="eu-1", labels="a=b", paused=True)
    selector = f"a=b,{names.REGION}=eu-1,{names.SKIP_RECONCILIATION} in (true,True,TRUE)"
    assert KINDS[0].selector(wanted) == selector


def test_every_kind_has_its_short_names_and_refuses_filters_that_mean_nothing_for_it() -> None:
    assert [kind_named(SHORT_NAMES[each.name][0]) for each in KINDS] == [*KINDS]
    assert kind_named("nothing") is None
    with pytest.raises(
        Problem, match="--region does not select configs; they have --kyma, --module, --reason, --state and -l"
    ):
        check_filters(KINDS[4], Selection(region="eu"))


def test_table_has_a_row_for_each_kyma() -> None:
    labels = {names.REGION: "eu-central-1"}
    text = written(
        KINDS[0],
        listed("a-longer-name", module_status(), module_status(state="Error"), labels=labels),
        listed("b"),
    )
    assert text.splitlines() == [
        "NAME           STATE  MODULES  CHANNEL  REGION        AGE  REASON",
        "a-longer-name  Ready  1/2      regular  eu-central-1  2d   -",
        "b              Ready  0/0      regular  -             2d   -",
    ]


def test_modules_are_rows_of_their_own() -> None:
    item = listed("demo", module_status(), module_status("istio", state="Error", message="\x1b[31mbroken\nby [bold]me"))
    text = written(KINDS[1], item, state="Error")
    assert text.splitlines()[1:] == ["demo  istio   Error  1.0.0    regular  broken by [bold]me"]


def test_paused_kymas_say_who_did_it_when_and_why() -> None:
    paused = {names.SKIP_RECONCILIATION: "true"}
    text = written(
        PAUSED_KYMAS,
        listed("demo", labels=paused, annotations=PAUSE),
        listed("other", labels=paused),
        listed("running"),
    )
    assert text.splitlines()[1:] == [
        "demo   Ready  2h     ada@example.com  incident 42",
        "other  Ready  -      -                the label was set by other means",
    ]


def test_lines_are_cut_to_a_terminal_and_colours_are_those_of_the_state() -> None:
    item = listed("demo", module_status("istio", state="Error", message="m" * 200))
    lines = written(KINDS[1], item, width=60).splitlines()
    assert [len(each) <= 60 for each in lines] == [True, True]
    assert lines[1].endswith("…")
    assert "\x1b[31m\x1b[1mError\x1b[0m" in written(KINDS[1], item, colour=True)


def test_every_other_kind_has_rows() -> None:
    manifest = builders.manifest(status={"state": "Ready"})
    assert "cloud-resources  0.1.0" in written(KINDS[3], manifest)
    assert "demo  cloud-resources" in written(KINDS[4], builders.module_config())
    assert "3/4" in written(KINDS[5], builders.sync_resource(status={"objects": "3/4"}))
    release = msgspec.convert(
        {**as_document(builders.release(regular="1.0.0", fast="1.1.0")), "metadata": {"name": "x"}}, DatedReleaseMeta
    )
    assert "cloud-resources  -          all  -        regular 1.0.0, fast 1.1.0" in written(KINDS[2], release)


def test_json_is_one_list_and_escapes_control_characters() -> None:
    items = [listed("a", module_status(message="\x9b31m \u202e x")), listed("b")]
    text = written(KINDS[0], *items, output="json")
    assert text.isprintable() or not any("\x7f" <= each <= "\x9f" for each in text)
    assert "\u202e" not in text
    document = msgspec.json.decode(text)
    assert [each["metadata"]["name"] for each in document["items"]] == ["a", "b"]
    assert document["items"][0]["status"]["modules"][0]["message"] == "\x9b31m \u202e x"
    assert document["items"][0]["kind"] == "Kyma"
    assert msgspec.json.decode(written(KINDS[0], output="json")) == {"apiVersion": "v1", "kind": "List", "items": []}


def test_a_named_object_is_one_document_and_modules_are_documents_with_their_kyma() -> None:
    item = listed("a", module_status(template=None))
    assert msgspec.json.decode(written(KINDS[0], item, output="json", name="a"))["metadata"]["name"] == "a"
    of_modules = msgspec.json.decode(written(KINDS[1], item, output="json"))["items"]
    assert of_modules == [{"kyma": "a", "name": "keda", "state": "Ready", "version": "1.0.0", "channel": "regular"}]


def test_yaml_and_names() -> None:
    item = listed("a", module_status())
    assert load_yaml(written(KINDS[0], item, output="yaml"))["metadata"]["name"] == "a"
    assert written(KINDS[0], item, output="name") == "kyma.operator.kyma-project.io/a\n"
    assert written(KINDS[1], item, output="name") == "a/keda\n"
