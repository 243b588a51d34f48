"""`klm adopt --check`: what is in the way, and what each option becomes."""

import io
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec import inspect

from kyma_fleet.screen import Screen
from kyma_takeover.adoption.counts import Counts, FormerSecrets
from kyma_takeover.adoption.deployment import former_deployments, options_of
from kyma_takeover.adoption.findings import obstacles_of, rows_of
from kyma_takeover.adoption.reading import FormerControlPlane
from kyma_takeover.adoption.report import CLUSTER_TITLES, AdoptionCounts, AdoptionReport
from kyma_takeover.flags import WITHOUT_EFFECT
from lifecycle_manager_api import names
from tests import builders
from tests.unit.fleet import test_documents as documents

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
ARGUMENTS = Path(__file__).with_name("arguments.txt").read_text().split()
CA = FormerSecrets("istio-system", has_ca=True, ca_until=NOW + timedelta(days=80), has_gateway=True, leaves=1)


def seen(**fields: Any) -> FormerControlPlane:
    return FormerControlPlane(**{"server_version": "v1.36.3", "secrets": CA, "read_at": NOW, **fields})


def lease(holder: str, renewed: datetime = NOW) -> dict[str, Any]:
    return {"spec": {"holderIdentity": holder, "leaseDurationSeconds": 180, "renewTime": renewed.isoformat()}}


def deployment(*arguments: str, **labels: str) -> dict[str, Any]:
    container = {"name": "manager", "image": "r/lifecycle-manager:1", "command": ["/manager"], "args": [*arguments]}
    spec = {"replicas": 0, "template": {"spec": {"containers": [container]}}}
    return {"metadata": {"name": "klm-controller-manager", "labels": labels}, "spec": spec}


def texts(found: FormerControlPlane) -> str:
    return "\n".join(each.text for each in obstacles_of(found, (), ()))


def test_every_option_of_the_former_version_is_taken_or_explained() -> None:
    options = options_of(ARGUMENTS)
    assert [each for each in options if each.refused] == []
    assert {each.given.removeprefix("--") for each in options if not each.becomes} == set(WITHOUT_EFFECT)
    assert all(each.why for each in options if not each.becomes)


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("--no-such-option=1", "this version has no such option"),
        ("--kyma-requeue-success-interval=soon", "invalid duration 'soon'"),
    ],
)
def test_option_that_would_end_the_process_is_in_the_way(argument: str, why: str) -> None:
    (option,) = options_of([argument])
    assert option.refused
    assert option.why.startswith(why)
    (obstacle,) = obstacles_of(seen(), [option], ())
    assert argument in obstacle.text


def test_nothing_is_in_the_way_of_a_usual_takeover() -> None:
    former = former_deployments([deployment(), {**deployment(), "metadata": {"name": "other"}}])
    assert len(former) == 2
    assert former[0].replicas == 0
    found = seen(deployments=former, lease=lease("klm-controller-manager-5c-x_1f"))
    assert texts(found) == ""
    assert "held by klm-controller-manager-5c-x_1f" in " ".join(each.found for each in rows_of(found))


def test_report_is_wrapped_to_a_terminal_and_nothing_of_it_is_cut() -> None:
    found = seen(secrets=FormerSecrets("istio-system"), lease=lease("klm-controller-manager-5c-x_1f"))
    options = options_of(ARGUMENTS)
    rows, obstacles = tuple(rows_of(found)), tuple(obstacles_of(found, (), ()))
    report = AdoptionReport("v1.36.3", (), AdoptionCounts.of(found), rows, tuple(options), (), obstacles)
    printed = {width: io.StringIO() for width in (80, None)}
    for width, stream in printed.items():
        report.print_table(Screen(width=width, stream=stream))
    narrow, whole = printed[80].getvalue(), printed[None].getvalue()
    assert max(map(len, narrow.splitlines())) <= 80
    assert {*whole.split()} - {"WHAT", "FOUND", "WITH", "THIS", "VERSION", "OPTION", "BECOMES", "WHY"} <= {
        *narrow.split()
    }


def test_lease_of_somebody_unknown_is_in_the_way() -> None:
    former = former_deployments([deployment()])
    assert "is no Pod" in texts(seen(deployments=former, lease=lease("laptop_1f")))
    assert texts(seen(deployments=former, lease=lease("laptop_1f", NOW - timedelta(hours=1)))) == ""


@pytest.mark.parametrize(
    ("arguments", "replicas", "is_in_the_way"),
    [
        ((), 1, True),
        (("--leader-elect=false",), 1, True),
        (("--leader-elect", "--leader-elect=false"), 1, True),
        (("-leader-elect=true",), 1, False),
        ((), 0, False),
    ],
)
def test_former_version_that_holds_no_lease_is_in_the_way_while_it_runs(
    arguments: tuple[str, ...], replicas: int, is_in_the_way: bool
) -> None:
    document = deployment(*arguments)
    document["spec"]["replicas"] = replicas
    found = seen(deployments=former_deployments([document]))
    assert ("runs without --leader-elect" in texts(found)) is is_in_the_way


def test_ca_has_to_exist_and_to_last() -> None:
    assert "does not exist" in texts(seen(secrets=FormerSecrets("istio-system")))
    ending = FormerSecrets("istio-system", has_ca=True, ca_until=NOW + timedelta(days=1))
    assert "ends 2026-11-23" in texts(seen(secrets=ending))


def test_objects_that_this_version_can_not_use_are_in_the_way() -> None:
    counts = Counts()
    for name in ("one", "two"):
        counts.add_kyma(builders.kyma(name, labels={names.RUNTIME_ID: "same"}))
    counts.add_access("one", "kubeconfig-one", is_labelled=False, refusal="exec plugins are not allowed")
    counts.add_manifest(builders.manifest("orphan", labels={names.KYMA_NAME: "gone"}))
    found = texts(seen(counts=counts))
    for text in (
        "several Kymas have the same runtime id: same",
        "1 Kyma without access Secret: two",
        "1 access Secret not usable, such as kubeconfig-one: exec plugins",
        "1 Manifest of Kymas that do not exist: demo-orphan",
    ):
        assert text in found
    assert "1 without managed-by: kubeconfig-one" in " ".join(each.found for each in rows_of(seen(counts=counts)))


def test_what_is_being_deleted_is_not_in_the_way() -> None:
    counts = Counts()
    deleted: dict[str, Any] = {"deletionTimestamp": NOW.isoformat()}
    counts.add_kyma(builders.kyma("without-access", **deleted))
    for kyma in ("gone", ""):
        counts.add_manifest(builders.manifest(labels={names.KYMA_NAME: kyma}, **deleted))
    assert texts(seen(counts=counts)) == ""


def test_what_may_not_be_read_is_in_the_way() -> None:
    found = texts(seen(unread={"access Secrets": "forbidden"}))
    assert found == "access Secrets can't be read: forbidden"


def test_keys_of_the_report_stay_and_its_table_fits_80_columns() -> None:
    fields = msgspec.structs.fields(AdoptionReport)
    assert " ".join(each.encode_name for each in fields) == "apiServer former counts rows options clusters inTheWay"
    keys = documents.keys_in(inspect.type_info(AdoptionReport))
    assert [each for each in keys if "_" in each or each[0].isupper()] == []
    documents.test_tables_fit_80_columns_with_all_of_their_titles((*CLUSTER_TITLES,))
