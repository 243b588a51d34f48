"""`klm check`: what each check finds."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kyma_fleet.checking import findings
from kyma_fleet.replicas import Replica
from lifecycle_manager.admission import webhook_configuration
from lifecycle_manager_api import Watcher
from lifecycle_manager_api.crds import all_crds

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
(WANTED,) = (each for each in all_crds() if each["spec"]["names"]["kind"] == "Kyma")


@pytest.mark.parametrize(
    ("version", "mark"),
    [("v1.36.3", "ok"), ("v1.34.0-gke.1", "ok"), ("v1.33.9", "bad"), ("", "note"), ("v999999", "note")],
)
def test_version_of_the_api_server(version: str, mark: str) -> None:
    assert findings.of_version(version).mark == mark


@pytest.mark.parametrize(
    ("ahead", "mark", "seconds"), [(0, "ok", ""), (4, "ok", ""), (60, "bad", "59 s"), (-60, "bad", "60 s")]
)
def test_clocks_may_differ_a_little(ahead: int, mark: str, seconds: str) -> None:
    found = findings.of_clocks(NOW, NOW + timedelta(seconds=ahead), NOW + timedelta(seconds=1))
    assert found.mark == mark
    assert seconds in found.text


def test_crds_are_missing_not_served_or_lack_fields() -> None:
    def changed(change: Any) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(WANTED))
        change(document["spec"]["versions"][0])
        return document

    def loses_a_field(version: dict[str, Any]) -> None:
        spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]
        del spec["modules"]["items"]["properties"]["managed"]

    name = "kymas.operator.kyma-project.io"
    assert findings.of_crd(name, WANTED, WANTED) is None
    missing = findings.of_crd(name, None, WANTED)
    unserved = findings.of_crd(name, changed(lambda version: version.update(served=False)), WANTED)
    older = findings.of_crd(name, changed(loses_a_field), WANTED)
    assert [each.text for each in (missing, unserved, older) if each is not None] == [
        f"{name} is missing",
        f"{name} does not serve v1beta2",
        f"{name} lacks spec.modules[].managed",
    ]


def test_policy_has_to_deny() -> None:
    assert findings.of_policy(None, {}).mark == "bad"
    assert findings.of_policy({}, {"spec": {"validationActions": ["Audit"]}}).mark == "bad"
    assert findings.of_policy({}, {"spec": {"validationActions": ["Deny"]}}).mark == "ok"


def test_webhooks_need_a_ca() -> None:
    registered = webhook_configuration("webhook", "kcp-system", b"CA")
    assert findings.of_webhooks(registered, is_enabled=True).mark == "ok"
    assert findings.of_webhooks(None, is_enabled=False).mark == "note"
    for changed, text in (
        (None, "is missing"),
        ({"webhooks": []}, "is missing"),
        ({"webhooks": registered["webhooks"][1:]}, "is missing"),
        (_with_first(registered, clientConfig={}), "has no CA"),
        (_with_first(registered, failurePolicy="Fail"), "somebody changed failurePolicy of"),
        (_with_first(registered, namespaceSelector={"matchLabels": {"a": "b"}}), "changed namespaceSelector of"),
        (_with_first(registered, rules=[]), "changed rules of"),
        (_with_first(registered, matchConditions=[]), "changed matchConditions of"),
    ):
        found = findings.of_webhooks(changed, is_enabled=True)
        assert (found.mark, text in found.text) == ("bad", True), found


def _with_first(configuration: dict[str, Any], **changed: Any) -> dict[str, Any]:
    first, *others = configuration["webhooks"]
    return {"webhooks": [first | changed, *others]}


def test_certificates_are_renewed_long_before_they_end() -> None:
    later, soon = NOW + timedelta(days=60), NOW + timedelta(days=3)
    assert findings.of_certificates({}, NOW).mark == "note"
    assert findings.of_certificates({"a": later}, NOW).text == "1 certificate, the first ends 2027-01-21"
    overdue = findings.of_certificates({"a": later, "b": soon}, NOW)
    assert (overdue.mark, "Secret b ends 2026-11-25" in overdue.text) == ("bad", True)
    unreadable = findings.of_certificates({"a": None}, NOW)
    assert (unreadable.mark, unreadable.advice.partition(":")[0]) == ("bad", "kubectl -n kcp-system delete secret a")


def test_replicas_watchers_rights_and_kinds() -> None:
    late = Replica("lm-0", NOW - timedelta(minutes=5), timedelta(seconds=10))
    assert findings.of_replicas([], NOW).advice == "start Lifecycle Manager"
    assert findings.of_replicas([late], NOW).text == "lm-0 renewed its Lease 5m ago"
    watcher = msgspec.convert(
        {
            "metadata": {"name": "w"},
            "spec": {
                "field": "spec",
                "gateway": {"selector": {}},
                "resourceToWatch": {"group": "", "version": "*", "resource": "x"},
                "serviceInfo": {"name": "a", "namespace": "b", "port": 1},
            },
            "status": {"state": "Error"},
        },
        Watcher,
    )
    assert findings.of_watchers([watcher]).advice == "kubectl -n kcp-system describe watcher w"
    assert findings.of_rights("klm-viewer", ["list kymas"]).text == "you may not list kymas"
    assert findings.of_kinds(["Lease"]).mark == "bad"
    assert findings.of_kinds([]).mark == "ok"
