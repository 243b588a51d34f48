"""The rules of the routes of Watcher CRs, and of the gateway's certificate."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from kube_runtime import Forbidden, NotFound, ObjectKey, Result
from kube_runtime.controller.causes import NO_CAUSES
from kyma_certs import CAs, KeyPair, announced, create_ca, issue, switched
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.istio.controller import GatewaySecret, GatewaySecretState, Routes
from lifecycle_manager.istio.rules import (
    certificate_hosts,
    fault_of,
    is_close_to_expiry,
    may_stay,
    virtual_service_of,
)
from lifecycle_manager.process.serving_certificate import server_request
from lifecycle_manager.watcher_certificates.tls_secret import key_pair_in, tls_secret_document
from lifecycle_manager_api import Watcher

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
WINDOW = timedelta(days=14)
REFUSED = Forbidden(403, "Forbidden", "no")
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
    return {
        "metadata": {"name": name, "namespace": "gateways", "labels": {"a": "b"}},
        "spec": {"servers": [{"hosts": list(hosts)}]},
    }


GATEWAYS = (gateway("a", "a.example.com"), gateway("b", "b.example.com", "a.example.com"))
KEY = ObjectKey("kcp-system", "painter")


@dataclass(eq=False)
class ControlPlane:
    """What Routes and GatewaySecret have: informers, the time, and a client that answers as an API server would."""

    live: Any = None
    watcher: Watcher | None = field(default_factory=watcher)
    refused: Exception | None = None
    applied: list[Any] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)

    async def get(self, *_: object) -> Any:
        if self.live is None:
            raise NotFound(404, "NotFound", "no such object")
        return self.live

    async def apply(self, resource: Any, _name: str, document: Any, *_: object, **options: Any) -> Any:
        if self.refused is not None:
            raise self.refused
        if options.get("subresource"):
            self.conditions += [each["reason"] for each in msgspec.to_builtins(document)["status"]["conditions"]]
            return self.watcher
        self.applied.append(document)
        return document

    @property
    def manager(self) -> Any:
        events, clock = SimpleNamespace(record=lambda *_, **__: None), SimpleNamespace(now=lambda: NOW)
        return SimpleNamespace(client=self, events=events, clock=clock)

    async def route(self) -> Result:
        def informer(found: Any) -> Any:
            return SimpleNamespace(get=lambda _: found, list=lambda: found, wrote=lambda _: None)

        routes = Routes(self.manager, informer(self.watcher), informer(GATEWAYS), informer(self.live))
        return await routes.reconcile(KEY, NO_CAUSES, None)

    async def secret(self, cas: CAs, hosts: tuple[str, ...] = HOSTS) -> GatewaySecretState:
        state = GatewaySecretState()
        await GatewaySecret(self.manager, lambda: hosts, lambda: cas, WINDOW).reconcile(KEY, NO_CAUSES, state)
        return state


def reason_of(live: Any) -> str:
    fault = fault_of(watcher(), GATEWAYS, live)
    return fault.reason if fault is not None else "Configured"


def test_all_gateways_and_each_of_their_hosts_are_routed() -> None:
    document = virtual_service_of(watcher(), GATEWAYS)
    assert document["spec"]["gateways"] == ["gateways/a", "gateways/b"]
    assert document["spec"]["hosts"] == ["a.example.com", "b.example.com"]
    assert reason_of(document) == "Configured"


async def test_api_server_that_adds_a_field_is_written_to_once() -> None:
    live = virtual_service_of(watcher(), GATEWAYS)
    live["spec"]["exportTo"] = ["*"]
    kcp = ControlPlane(live)
    assert await kcp.route() == Result(300.0)
    assert (kcp.applied, kcp.conditions) == ([virtual_service_of(watcher(), GATEWAYS)], ["Configured"])
    same = ControlPlane(virtual_service_of(watcher(), GATEWAYS))
    await same.route()
    assert same.applied == []


async def test_virtual_service_of_another_owner_is_never_written() -> None:
    live = virtual_service_of(watcher(uid="another"), GATEWAYS)
    assert reason_of(live) == "NameTaken"
    kcp = ControlPlane(live)
    await kcp.route()
    assert (kcp.applied, kcp.conditions) == ([], ["NameTaken"])


async def test_virtual_service_that_was_restored_without_its_owner_gets_it_again() -> None:
    live = virtual_service_of(watcher(), GATEWAYS)
    del live["metadata"]["ownerReferences"]
    kcp = ControlPlane(live)
    await kcp.route()
    assert (kcp.applied, kcp.conditions) == ([virtual_service_of(watcher(), GATEWAYS)], ["Configured"])


async def test_watcher_cr_that_is_being_deleted_gets_no_virtual_service() -> None:
    kcp = ControlPlane(watcher=watcher(deletionTimestamp="2026-11-01T12:00:00Z"))
    assert await kcp.route() == Result(300.0)
    assert (kcp.applied, kcp.conditions) == ([], [])


def test_any_host_and_namespaces_of_hosts_are_in_no_certificate() -> None:
    found = certificate_hosts(HOSTS, gateway("a", "*", "kcp-system/x.example.com", "*/y.example.com", HOSTS[0]))
    assert found == (*HOSTS, "x.example.com", "y.example.com")
    assert certificate_hosts(HOSTS, None) == HOSTS


def test_wildcard_that_no_certificate_can_have_leaves_the_others_theirs() -> None:
    found = certificate_hosts(HOSTS, gateway("a", "*-x.example.com", "*.y.example.com"))
    issue(new_ca(), server_request(found), now=NOW)
    assert found == (*HOSTS, "*.y.example.com")


def test_certificate_for_an_address_in_another_spelling_stays() -> None:
    ca = new_ca()
    pair = issue(ca, replace(server_request(("FD00::1",)), lifetime=timedelta(days=90)), now=NOW)
    assert may_stay(pair, ("FD00::1",), cas=CAs(ca), now=NOW)


def new_ca() -> KeyPair:
    return create_ca("ca", lifetime=timedelta(days=3650), now=NOW)


def stored(pair: KeyPair, cas: CAs) -> Secret:
    return msgspec.convert(tls_secret_document("s", "n", pair, trust=cas.trusted), Secret)


@pytest.fixture(scope="module")
def cas() -> CAs:
    return CAs(new_ca())


@pytest.fixture(scope="module")
def pair(cas: CAs) -> KeyPair:
    return issue(cas.signing, replace(server_request(HOSTS), lifetime=timedelta(days=90)), now=NOW)


def test_certificate_stays_until_thirty_days_before_its_end(cas: CAs, pair: KeyPair) -> None:
    assert may_stay(pair, HOSTS, cas=cas, now=NOW)
    assert may_stay(pair, HOSTS, cas=cas, now=NOW + timedelta(days=59))
    assert not may_stay(pair, HOSTS, cas=cas, now=NOW + timedelta(days=61))


async def test_certificate_is_issued_for_other_hosts_and_in_place_of_the_ca(cas: CAs, pair: KeyPair) -> None:
    for hosts in ((*HOSTS, "b.example.com"), (HOSTS[0], "127.0.0.2")):
        assert not may_stay(pair, hosts, cas=cas, now=NOW)
    assert not may_stay(cas.signing, HOSTS, cas=cas, now=NOW)
    unreadable = KeyPair(certificate_pem=b"no certificate", key_pem=b"key")
    for each in (None, stored(unreadable, cas), stored(cas.signing, cas)):
        kcp = ControlPlane(each)
        await kcp.secret(cas)
        (written,) = kcp.applied
        issued = key_pair_in(msgspec.convert(written, Secret))
        assert issued is not None
        assert may_stay(issued, HOSTS, cas=cas, now=NOW)


async def test_rotation_changes_trust_first_and_then_the_certificate(cas: CAs, pair: KeyPair) -> None:
    async def written(known: CAs) -> KeyPair | None:
        kcp = ControlPlane(stored(pair, cas))
        await kcp.secret(known)
        return key_pair_in(msgspec.convert(kcp.applied[0], Secret)) if kcp.applied else None

    both = announced(cas, new_ca(), now=NOW)
    assert await written(cas) is None
    assert await written(both) == pair
    assert await written(switched(both, now=NOW)) not in {None, pair}


async def test_metric_reports_a_missing_certificate_and_one_that_ends_soon(cas: CAs, pair: KeyPair) -> None:
    assert not is_close_to_expiry(pair, WINDOW, now=NOW)
    assert is_close_to_expiry(pair, WINDOW, now=NOW + timedelta(days=77))
    assert is_close_to_expiry(None, WINDOW, now=NOW)
    assert not (await ControlPlane().secret(cas)).is_close_to_expiry
    state = GatewaySecretState()
    secret = GatewaySecret(ControlPlane(refused=REFUSED).manager, lambda: HOSTS, lambda: cas, WINDOW)
    with pytest.raises(Forbidden):
        await secret.reconcile(KEY, NO_CAUSES, state)
    assert state.is_close_to_expiry


async def test_failed_write_is_retried(cas: CAs) -> None:
    kcp = ControlPlane(refused=REFUSED)
    with pytest.raises(Forbidden):
        await kcp.route()
    with pytest.raises(Forbidden):
        await kcp.secret(cas)
