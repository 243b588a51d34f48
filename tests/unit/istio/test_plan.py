"""The rules of the routes of Watcher CRs, and of the gateway's certificate."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kyma_certs import CAs, KeyPair, announced, create_ca, issue, switched
from lifecycle_manager.istio.plan import (
    ApplyVirtualService,
    Done,
    SecretStep,
    certificate_hosts,
    is_close_to_expiry,
    plan,
    plan_secret,
    virtual_service_of,
)
from lifecycle_manager.istio.snapshot import RouteSnapshot, SecretSnapshot
from lifecycle_manager.process.serving_certificate import server_request
from lifecycle_manager_api import Watcher

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
HOSTS = ("listener.example.com", "127.0.0.1")


def watcher(**metadata: Any) -> Watcher:
    document = {
        "metadata": {"name": "painter", "namespace": "kcp-system", "uid": "u-1", "generation": 1, **metadata},
        "spec": {
            "field": "spec",
            "manager": "painter",
            "gateway": {"selector": {"matchLabels": {"a": "b"}}},
            "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
            "serviceInfo": {"name": "events", "namespace": "colours", "port": 8082},
        },
    }
    return msgspec.convert(document, Watcher)


def gateway(name: str, *hosts: str) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "gateways"}, "spec": {"servers": [{"hosts": list(hosts)}]}}


SEEN = RouteSnapshot(watcher(), (gateway("a", "a.example.com"), gateway("b", "b.example.com", "a.example.com")), None)


def reason_of(seen: RouteSnapshot) -> str:
    done = plan(seen)
    assert isinstance(done, Done)
    assert done.status is not None
    return done.status.reason


def test_all_gateways_and_each_of_their_hosts_are_routed() -> None:
    step = plan(SEEN)
    assert isinstance(step, ApplyVirtualService)
    assert step.document["spec"]["gateways"] == ["gateways/a", "gateways/b"]
    assert step.document["spec"]["hosts"] == ["a.example.com", "b.example.com"]
    assert reason_of(replace(SEEN, live=step.document)) == "Configured"


def test_api_server_that_adds_a_field_is_written_to_once() -> None:
    live = virtual_service_of(SEEN.watcher, SEEN.gateways)
    live["spec"]["exportTo"] = ["*"]
    assert isinstance(plan(replace(SEEN, live=live)), ApplyVirtualService)
    assert reason_of(replace(SEEN, live=live, is_applied=True)) == "Configured"


def test_virtual_service_of_another_owner_is_never_written() -> None:
    live = virtual_service_of(watcher(uid="another"), SEEN.gateways)
    assert reason_of(replace(SEEN, live=live)) == "NameTaken"


def test_watcher_cr_that_is_being_deleted_gets_no_virtual_service() -> None:
    deleted = watcher(deletionTimestamp="2026-11-01T12:00:00Z")
    assert plan(replace(SEEN, watcher=deleted)) == Done(None)


def test_any_host_and_namespaces_of_hosts_are_in_no_certificate() -> None:
    found = certificate_hosts(HOSTS, gateway("a", "*", "kcp-system/x.example.com", "*/y.example.com", HOSTS[0]))
    assert found == (*HOSTS, "x.example.com", "y.example.com")
    assert certificate_hosts(HOSTS, None) == HOSTS


def new_ca() -> KeyPair:
    return create_ca("ca", lifetime=timedelta(days=3650), now=NOW)


def secret_of(cas: CAs, lifetime: timedelta = timedelta(days=90)) -> SecretSnapshot:
    request = replace(server_request(HOSTS), lifetime=lifetime)
    return SecretSnapshot(HOSTS, issue(cas.signing, request, now=NOW), cas.trusted, cas, NOW)


@pytest.fixture(scope="module")
def secret() -> SecretSnapshot:
    return secret_of(CAs(new_ca()))


def test_certificate_stays_until_thirty_days_before_its_end(secret: SecretSnapshot) -> None:
    assert plan_secret(secret) is SecretStep.NOTHING
    assert plan_secret(replace(secret, now=NOW + timedelta(days=59))) is SecretStep.NOTHING
    assert plan_secret(replace(secret, now=NOW + timedelta(days=61))) is SecretStep.ISSUE


def test_certificate_is_issued_for_other_hosts_and_in_place_of_the_ca(secret: SecretSnapshot) -> None:
    assert plan_secret(replace(secret, hosts=(*HOSTS, "b.example.com"))) is SecretStep.ISSUE
    assert plan_secret(replace(secret, hosts=(HOSTS[0], "127.0.0.2"))) is SecretStep.ISSUE
    assert plan_secret(replace(secret, pair=secret.cas.signing)) is SecretStep.ISSUE
    assert plan_secret(replace(secret, pair=None)) is SecretStep.ISSUE


def test_rotation_changes_trust_first_and_then_the_certificate(secret: SecretSnapshot) -> None:
    both = announced(secret.cas, new_ca(), now=NOW)
    assert plan_secret(replace(secret, cas=both)) is SecretStep.TRUST
    assert plan_secret(replace(secret, cas=switched(both, now=NOW))) is SecretStep.ISSUE


def test_metric_reports_a_missing_certificate_and_one_that_ends_soon(secret: SecretSnapshot) -> None:
    window = timedelta(days=14)
    assert not is_close_to_expiry(secret, window)
    assert is_close_to_expiry(replace(secret, now=NOW + timedelta(days=77)), window)
    assert is_close_to_expiry(replace(secret, pair=None), window)
