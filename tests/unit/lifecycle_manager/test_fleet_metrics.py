"""The states of the fleet as dashboards read them: by upstream's names, and gone with what they speak of."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager.telemetry import FleetCollector
from lifecycle_manager_api import names
from tests import builders


def test_states_are_told_by_name_and_forgotten_with_what_they_are_of() -> None:
    kymas: Cache[Any] = Cache({})
    manifests: Cache[Any] = Cache({})
    key = ObjectKey("kcp-system", "demo")
    status = {"state": "Warning", "modules": [{"name": "api", "state": "Ready"}]}
    labels = {names.INSTANCE_ID: "instance"}
    kymas.put(key, builders.kyma(status=status, labels=labels, annotations={names.SKR_DOMAIN: "shoot.example.com"}))
    manifests.put(key, builders.manifest("warden", mandatory=True, status={"state": "Error"}))
    kymas.put(ObjectKey("kcp-system", "other"), builders.kyma("other", status=status))
    offer = Offer.of([builders.template("warden", mandatory=True)], [])
    registry = CollectorRegistry()
    fleet: Any = FleetCollector(_informer(kymas), _informer(manifests), _offers(offer), lambda name: name != "other")
    registry.register(fleet)

    text = generate_latest(registry).decode()
    assert 'lifecycle_mgr_kyma_state{instance_id="instance",kyma_name="demo",shoot="shoot",state="Warning"} 1.0' in text
    assert (
        'lifecycle_mgr_module_state{instance_id="instance",kyma_name="demo",module_name="api",'
        'shoot="shoot",state="Ready"} 1.0' in text
    )
    assert 'kyma_name="other"' not in text  # another replica tells of it
    assert "lifecycle_mgr_replica_kymas 1.0" in text
    assert "lifecycle_mgr_mandatory_modules 1.0" in text
    assert 'lifecycle_mgr_mandatory_module_state{kyma_name="demo",module_name="warden",state="Error"} 1.0' in text

    kymas.remove(key)
    manifests.remove(key)
    assert "demo" not in generate_latest(registry).decode()


def test_cluster_whose_way_of_events_is_broken_has_a_sample_that_says_why() -> None:
    kymas: Cache[Any] = Cache({})
    for name, reason in (("well", "WatcherReady"), ("ill", "EventPathBroken")):
        condition = {"type": "SKRWebhook", "status": "False", "reason": reason, "message": ""}
        kymas.put(ObjectKey("kcp-system", name), builders.kyma(name, status={"conditions": [condition]}))
    registry = CollectorRegistry()
    fleet: Any = FleetCollector(_informer(kymas), _informer(Cache({})), _offers(Offer.of([], [])), lambda _: True)
    registry.register(fleet)

    samples = [line for line in generate_latest(registry).decode().splitlines() if "event_path_broken{" in line]
    assert samples == ['lifecycle_mgr_skr_event_path_broken{kyma_name="ill",reason="EventPathBroken"} 1.0']


def test_certificate_that_was_not_renewed_is_told_by_who_looks_after_its_kyma_now() -> None:
    overdue = {"ours", "given away"}
    nothing, offers = _informer(Cache({})), _offers(Offer.of([], []))
    registry = CollectorRegistry()
    fleet: Any = FleetCollector(nothing, nothing, offers, lambda name: name == "ours", overdue)
    registry.register(fleet)

    def told() -> list[str]:
        return [line for line in generate_latest(registry).decode().splitlines() if "not_renew{" in line]

    assert told() == ['lifecycle_mgr_self_signed_cert_not_renew{kyma_name="ours"} 1.0']
    overdue.remove("ours")
    assert told() == []


def _informer(cache: Cache[Any]) -> Any:
    return SimpleNamespace(cache=cache)


def _offers(offer: Offer) -> Any:
    return SimpleNamespace(current=lambda: offer)
