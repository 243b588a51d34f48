"""The rules of the routes of Watcher CRs, and of the gateway's certificate."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kube_runtime import Forbidden, StepFailure
from kyma_certs import CAs, KeyPair, announced, create_ca, issue, switched
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.istio.plan import (
    ApplyVirtualService,
    GatewaySecretDone,
    RouteDone,
    WriteGatewaySecret,
    certificate_hosts,
    certificate_in,
    plan_route,
    plan_secret,
    virtual_service_of,
)
from lifecycle_manager.istio.snapshot import GatewaySecretSnapshot, RouteSnapshot
from lifecycle_manager.process.serving_certificate import server_request
from lifecycle_manager.watcher_certificates.tls_secret import tls_secret_document
from lifecycle_manager_api import Watcher

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
ISSUE = WriteGatewaySecret(None)
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


GATEWAYS = (gateway("a", "a.example.com"), gateway("b", "b.example.com", "a.example.com"))
SEEN = RouteSnapshot(watcher=watcher(), gateways=GATEWAYS)


def reason_of(seen: RouteSnapshot) -> str:
    done = plan_route(seen)
    assert isinstance(done, RouteDone)
    assert done.condition is not None
    return done.condition.reason


def test_all_gateways_and_each_of_their_hosts_are_routed() -> None:
    step = plan_route(SEEN)
    assert isinstance(step, ApplyVirtualService)
    assert step.document["spec"]["gateways"] == ["gateways/a", "gateways/b"]
    assert step.document["spec"]["hosts"] == ["a.example.com", "b.example.com"]
    assert reason_of(replace(SEEN, live=step.document)) == "Configured"


def test_api_server_that_adds_a_field_is_written_to_once() -> None:
    live = virtual_service_of(SEEN.watcher, SEEN.gateways)
    live["spec"]["exportTo"] = ["*"]
    assert isinstance(plan_route(replace(SEEN, live=live)), ApplyVirtualService)
    assert reason_of(replace(SEEN, live=live, is_applied=True)) == "Configured"


def test_virtual_service_of_another_owner_is_never_written() -> None:
    live = virtual_service_of(watcher(uid="another"), SEEN.gateways)
    assert reason_of(replace(SEEN, live=live)) == "NameTaken"


def test_watcher_cr_that_is_being_deleted_gets_no_virtual_service() -> None:
    deleted = watcher(deletionTimestamp="2026-11-01T12:00:00Z")
    assert plan_route(replace(SEEN, watcher=deleted)) == RouteDone(requeue_after=300.0)


def test_any_host_and_namespaces_of_hosts_are_in_no_certificate() -> None:
    found = certificate_hosts(HOSTS, gateway("a", "*", "kcp-system/x.example.com", "*/y.example.com", HOSTS[0]))
    assert found == (*HOSTS, "x.example.com", "y.example.com")
    assert certificate_hosts(HOSTS, None) == HOSTS


def new_ca() -> KeyPair:
    return create_ca("ca", lifetime=timedelta(days=3650), now=NOW)


def stored(pair: KeyPair, cas: CAs) -> Secret:
    return msgspec.convert(tls_secret_document("s", "n", pair, trust=cas.trusted), Secret)


@pytest.fixture(scope="module")
def secret() -> GatewaySecretSnapshot:
    cas = CAs(new_ca())
    pair = issue(cas.signing, replace(server_request(HOSTS), lifetime=timedelta(days=90)), now=NOW)
    return GatewaySecretSnapshot(
        secret=stored(pair, cas),
        hosts=HOSTS,
        expiry_window=timedelta(days=14),
        cas=cas,
        now=NOW,
    )


def test_certificate_stays_until_thirty_days_before_its_end(secret: GatewaySecretSnapshot) -> None:
    assert isinstance(plan_secret(secret), GatewaySecretDone)
    assert isinstance(plan_secret(replace(secret, now=NOW + timedelta(days=59))), GatewaySecretDone)
    assert plan_secret(replace(secret, now=NOW + timedelta(days=61))) == ISSUE


def test_certificate_is_issued_for_other_hosts_and_in_place_of_the_ca(secret: GatewaySecretSnapshot) -> None:
    for hosts in ((*HOSTS, "b.example.com"), (HOSTS[0], "127.0.0.2")):
        assert plan_secret(replace(secret, hosts=hosts)) == ISSUE
    of_the_ca = replace(secret, secret=stored(secret.cas.signing, secret.cas))
    assert plan_secret(of_the_ca) == ISSUE
    unreadable = KeyPair(certificate_pem=b"no certificate", key_pem=b"key")
    for each in (None, stored(unreadable, secret.cas)):
        assert plan_secret(replace(secret, secret=each)) == ISSUE


def test_rotation_changes_trust_first_and_then_the_certificate(secret: GatewaySecretSnapshot) -> None:
    both = announced(secret.cas, new_ca(), now=NOW)
    assert plan_secret(replace(secret, cas=both)) == WriteGatewaySecret(certificate_in(secret.secret))
    assert plan_secret(replace(secret, cas=switched(both, now=NOW))) == ISSUE


def test_metric_reports_a_missing_certificate_and_one_that_ends_soon(secret: GatewaySecretSnapshot) -> None:
    assert not is_close_to_expiry(secret)
    assert is_close_to_expiry(replace(secret, now=NOW + timedelta(days=77)))
    assert is_close_to_expiry(replace(secret, secret=None))


def test_failed_write_is_retried(secret: GatewaySecretSnapshot) -> None:
    refused = Forbidden(403, "Forbidden", "no")
    for seen, planned in ((SEEN, plan_route), (replace(secret, secret=None), plan_secret)):
        plan: Any = planned
        assert plan(replace(seen, failures=(StepFailure(plan(seen), refused),))).error is refused


def is_close_to_expiry(seen: GatewaySecretSnapshot) -> bool:
    """Return what a reconcile ends with whose steps fail."""
    end = plan_secret(replace(seen, failures=(StepFailure(ISSUE, Forbidden(403, "Forbidden", "no")),)))
    assert isinstance(end, GatewaySecretDone)
    return end.is_close_to_expiry
