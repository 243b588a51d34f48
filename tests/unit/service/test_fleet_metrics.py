"""The metrics of the fleet have upstream's names, and the samples of deleted objects disappear."""

from types import SimpleNamespace
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.fleet_metrics import FleetCollector
from lifecycle_manager.module_catalog import Offer
from lifecycle_manager_api import names
from tests import builders


def test_states_are_samples_until_their_objects_are_deleted() -> None:
    kymas: Cache[Any] = Cache()
    manifests: Cache[Any] = Cache()
    key = ObjectKey("kcp-system", "demo")
    status = {"state": "Warning", "modules": [{"name": "api", "state": "Ready"}]}
    labels = {names.INSTANCE_ID: "instance"}
    kymas.put(key, builders.kyma(status=status, labels=labels, annotations={names.SKR_DOMAIN: "shoot.example.com"}))
    manifests.put(key, builders.manifest("warden", mandatory=True, status={"state": "Error"}))
    kymas.put(ObjectKey("kcp-system", "other"), builders.kyma("other", status=status))
    offer = Offer.of([builders.template("warden", mandatory=True)], [])
    registry = CollectorRegistry()
    registry.register(
        FleetCollector(kymas.list, manifests.list, offers=_offers(offer), owns=lambda name: name != "other")
    )

    text = generate_latest(registry).decode()
    assert 'lifecycle_mgr_kyma_state{instance_id="instance",kyma_name="demo",shoot="shoot",state="Warning"} 1.0' in text
    assert (
        'lifecycle_mgr_module_state{instance_id="instance",kyma_name="demo",module_name="api",'
        'shoot="shoot",state="Ready"} 1.0' in text
    )
    assert 'kyma_name="other"' not in text  # another replica reports it
    assert "lifecycle_mgr_replica_kymas 1.0" in text
    assert "lifecycle_mgr_mandatory_modules 1.0" in text
    assert 'lifecycle_mgr_mandatory_module_state{kyma_name="demo",module_name="warden",state="Error"} 1.0' in text

    kymas.remove(key)
    manifests.remove(key)
    assert "demo" not in generate_latest(registry).decode()


def test_broken_event_path_has_a_sample_with_the_reason() -> None:
    kymas: Cache[Any] = Cache()
    for name, reason in (("well", "WatcherReady"), ("ill", "EventPathBroken")):
        condition = {"type": "SKRWebhook", "status": "False", "reason": reason, "message": ""}
        kymas.put(ObjectKey("kcp-system", name), builders.kyma(name, status={"conditions": [condition]}))
    registry = CollectorRegistry()
    registry.register(FleetCollector(kymas.list, tuple, offers=_offers(Offer.of([], [])), owns=lambda _: True))

    samples = [line for line in generate_latest(registry).decode().splitlines() if "event_path_broken{" in line]
    assert samples == ['lifecycle_mgr_skr_event_path_broken{kyma_name="ill",reason="EventPathBroken"} 1.0']


def _offers(offer: Offer) -> Any:
    return SimpleNamespace(current=lambda: offer)
