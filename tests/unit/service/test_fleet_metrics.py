"""The states of the fleet are counted; upstream's series for each Kyma are an option."""

from functools import partial
from operator import ne
from types import SimpleNamespace
from typing import Any

import msgspec
from prometheus_client import CollectorRegistry, generate_latest

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.kyma.fleet_metrics import FleetCollector
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import ModuleTemplateStatus, names
from tests import builders


def test_kymas_and_modules_are_counted_whatever_their_users_ask_for() -> None:
    ready = builders.module_status("api")
    kymas = [
        builders.kyma(
            f"kyma-{number}",
            status={
                "state": "Warning",
                "modules": [
                    ready,
                    _unknown(f"made-up-{number}"),
                    builders.module_status("dns", channel=f"made-up-{number}"),
                ],
            },
        )
        for number in range(3)
    ]
    manifests = [builders.manifest("warden", kyma=each, mandatory=True, status={"state": "Error"}) for each in "ab"]
    offer = Offer.of([builders.template("warden", mandatory=True)], [builders.release("api", regular="1.0.0")])
    text = _scraped(
        FleetCollector(lambda: kymas, lambda: manifests, tuple, _offers(offer), lambda name: name != "kyma-2")
    )

    assert 'lifecycle_mgr_kymas{state="Warning"} 2.0' in text
    assert 'lifecycle_mgr_modules{channel="regular",module_name="api",state="Ready",version="1.0.0"} 2.0' in text
    assert 'lifecycle_mgr_modules{channel="",module_name="dns",state="Ready",version="1.0.0"} 2.0' in text
    assert 'lifecycle_mgr_modules{channel="",module_name="",state="Error",version=""} 2.0' in text
    assert 'lifecycle_mgr_mandatory_manifests{module_name="warden",state="Error",version="0.1.0"} 2.0' in text
    assert "made-up" not in text
    assert "kyma-" not in text


def test_upstreams_series_have_each_state_until_their_objects_are_deleted() -> None:
    kymas: Cache[Any] = Cache()
    manifests: Cache[Any] = Cache()
    key = ObjectKey("kcp-system", "demo")
    status = {"state": "Warning", "modules": [{"name": "api", "state": "Ready"}]}
    labels = {names.INSTANCE_ID: "instance"}
    kymas.put(key, builders.kyma(status=status, labels=labels, annotations={names.SKR_DOMAIN: "shoot.example.com"}))
    manifests.put(key, builders.manifest("warden", mandatory=True, status={"state": "Error"}))
    kymas.put(ObjectKey("kcp-system", "other"), builders.kyma("other", status=status))
    offer = Offer.of([builders.template("warden", mandatory=True)], [])
    owns = partial(ne, "other")
    collector = FleetCollector(kymas.list, manifests.list, tuple, _offers(offer), owns, each_kyma=True)

    text = _scraped(collector)
    assert 'lifecycle_mgr_kyma_state{instance_id="instance",kyma_name="demo",shoot="shoot",state="Ready"} 0.0' in text
    assert 'lifecycle_mgr_kyma_state{instance_id="instance",kyma_name="demo",shoot="shoot",state="Warning"} 1.0' in text
    assert (
        'lifecycle_mgr_module_state{instance_id="instance",kyma_name="demo",module_name="api",'
        'shoot="shoot",state="Ready"} 1.0' in text
    )
    states = {"Ready", "Processing", "Error", "Deleting", "Warning"}
    assert _states_of(text, "lifecycle_mgr_kyma_state") == states
    assert _states_of(text, "lifecycle_mgr_mandatory_module_state") == states
    assert _states_of(text, "lifecycle_mgr_module_state") == {*states, "Unmanaged"}
    assert 'kyma_name="other"' not in text  # another replica reports it
    assert "lifecycle_mgr_replica_kymas 1.0" in text
    assert "lifecycle_mgr_mandatory_modules 1.0" in text
    assert 'lifecycle_mgr_mandatory_module_state{kyma_name="demo",module_name="warden",state="Error"} 1.0' in text

    kymas.remove(key)
    manifests.remove(key)
    assert "demo" not in _scraped(collector)


def test_broken_event_path_has_a_sample_with_the_reason() -> None:
    kymas: Cache[Any] = Cache()
    for name, reason in (("well", "WatcherReady"), ("ill", "EventPathBroken")):
        condition = {"type": "SKRWebhook", "status": "False", "reason": reason, "message": ""}
        kymas.put(ObjectKey("kcp-system", name), builders.kyma(name, status={"conditions": [condition]}))
    text = _scraped(FleetCollector(kymas.list, tuple, tuple, _offers(Offer.of([], [])), lambda _: True))

    samples = [line for line in text.splitlines() if "event_path_broken{" in line]
    assert samples == ['lifecycle_mgr_skr_event_path_broken{kyma_name="ill",reason="EventPathBroken"} 1.0']


def test_deletions_that_are_held_are_counted_by_kind() -> None:
    ready = {"type": "Ready", "status": "False", "reason": "DeletionHeld", "message": ""}
    deleted = builders.kyma("deleted", status={"conditions": [ready]})
    other = {"type": "MandatoryModules", "status": "False", "reason": "ManifestsWritten", "message": ""}
    kymas = [deleted, builders.kyma("other", status={"conditions": [other]})]
    text = _scraped(FleetCollector(lambda: kymas, tuple, tuple, _offers(Offer.of([], [])), lambda _: True))
    assert 'lifecycle_mgr_deletions_held{kind="Kyma"} 1.0' in text


def test_versions_that_are_not_signed_as_required_are_named() -> None:
    templates = []
    for version, status in (("1.0.0", "False"), ("1.1.0", "True")):
        conditions = [builders.condition("DescriptorVerified", "Any", status=status)]
        found = msgspec.convert({"conditions": conditions}, ModuleTemplateStatus)
        templates.append(msgspec.structs.replace(builders.template("telemetry", version), status=found))
    templates.append(builders.template("telemetry", "1.2.0"))
    text = _scraped(FleetCollector(tuple, tuple, tuple, _offers(Offer.of(templates, [])), lambda _: True))
    samples = [line for line in text.splitlines() if line.startswith("lifecycle_mgr_modules_unverified{")]
    assert samples == ['lifecycle_mgr_modules_unverified{module_name="telemetry",version="1.0.0"} 1.0']


def _unknown(name: str) -> dict[str, Any]:
    return {"name": name, "channel": f"channel-of-{name}", "state": "Error"}


def _states_of(text: str, metric: str) -> set[str]:
    samples = [line for line in text.splitlines() if line.startswith(metric + "{")]
    assert sum(line.endswith(" 1.0") for line in samples) == 1
    return {line.partition('state="')[2].partition('"')[0] for line in samples}


def _scraped(collector: FleetCollector) -> str:
    registry = CollectorRegistry()
    registry.register(collector)
    return generate_latest(registry).decode()


def _offers(offer: Offer) -> Any:
    return SimpleNamespace(current=lambda: offer)
