"""The objects of the Watcher in an SKR, where the contract or its shutdown depend on them."""

from typing import Any

import pytest

from kyma_certs import KeyPair
from lifecycle_manager.options.watcher import WatcherDeployment, WatcherSettings, WatcherTimes
from lifecycle_manager.skr_webhook.documents import INVENTORY, ModuleRule, webhook_document, workload_documents
from skr_watcher.settings import SkrWatcherSettings
from tests.unit.watcher_crs.test_status import other, watcher

SETTINGS = WatcherDeployment(image="watcher:1", kcp_address="kcp.example.com:443")
SECONDS_TO_ANSWER = 5


def workload(settings: WatcherDeployment = SETTINGS, **more: Any) -> dict[str, dict[str, Any]]:
    documents = workload_documents(
        WatcherSettings(deployment=settings, **more), KeyPair(b"certificate", b"key"), b"trust"
    )
    return {document["kind"]: document for document in documents}


def read_by_the_watcher(installed: dict[str, dict[str, Any]]) -> SkrWatcherSettings:
    """Return the settings that an installed Watcher reads."""
    (container,) = installed["Deployment"]["spec"]["template"]["spec"]["containers"]
    return SkrWatcherSettings.from_environment({each["name"]: each["value"] for each in container["env"]})


def test_watcher_leaves_its_service_before_it_stops_and_has_time_to_send_its_events() -> None:
    """A request that reaches it after its end would be allowed, and its change never reported."""
    pod = workload()["Deployment"]["spec"]["template"]["spec"]
    in_service = pod["containers"][0]["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert in_service >= 5
    assert in_service + SECONDS_TO_ANSWER + SkrWatcherSettings().drain_seconds < pod["terminationGracePeriodSeconds"]


def test_pods_name_the_image_pull_secret_where_there_is_one() -> None:
    settings = SETTINGS.model_copy(update={"pull_secret": "login"})
    pod = workload(settings)["Deployment"]["spec"]["template"]["spec"]
    assert pod["imagePullSecrets"] == [{"name": "login"}]
    assert "imagePullSecrets" not in workload()["Deployment"]["spec"]["template"]["spec"]


@pytest.mark.parametrize(
    ("endpoint", "port"), [("http://collector:4318", 4318), ("https://otlp.example.com", 443), ("http://[::1]", 80)]
)
def test_watcher_sends_traces_to_its_endpoint_and_may_connect_there(endpoint: str, port: int) -> None:
    installed = workload(SETTINGS.model_copy(update={"otlp_endpoint": endpoint, "trace_sampling_ratio": 0.01}))
    settings = read_by_the_watcher(installed)
    assert (settings.otlp_endpoint, settings.trace_sampling_ratio) == (endpoint, 0.01)
    ports = {each["port"] for rule in installed["NetworkPolicy"]["spec"]["egress"] for each in rule["ports"]}
    assert ports == {443, port, 53, 8053}


@pytest.mark.parametrize(("silence", "heartbeat"), [(58.0, 46.0), (600.0, 588.0), (12.0, 6.0), (86400.0, 3600.0)])
def test_watcher_sends_heartbeats_before_it_counts_as_silent(silence: float, heartbeat: float) -> None:
    """They came every 46 s, whatever `--watcher-silence` said: with less, Watchers in order counted as silent."""
    assert read_by_the_watcher(workload(times=WatcherTimes(silence=silence))).heartbeat_seconds == heartbeat


def test_watcher_that_is_started_by_hand_sends_heartbeats_as_an_installed_one() -> None:
    assert SkrWatcherSettings().heartbeat_seconds == WatcherTimes().heartbeat


@pytest.mark.parametrize("fips_only", [True, False])
def test_watcher_demands_the_fips_provider_where_lifecycle_manager_does(fips_only: bool) -> None:
    assert read_by_the_watcher(workload(SETTINGS.model_copy(update={"fips_only": fips_only}))).fips_only is fips_only


def test_watcher_without_traces_is_installed_as_before() -> None:
    assert workload(SETTINGS.model_copy(update={"trace_sampling_ratio": 0.01})) == workload()


def test_all_that_is_installed_is_removed() -> None:
    kinds = {*workload(), webhook_document([], [], b"trust")["kind"]}
    assert kinds == {entry.kind for entry in INVENTORY}


@pytest.mark.parametrize(("field", "resource"), [("spec", "configmaps"), ("status", "configmaps/status")])
def test_webhook_of_a_watcher_conforms_to_the_contract(field: str, resource: str) -> None:
    painter = other(watcher("colours", manager="painter"), field=field, labelsToWatch={"colour": "red"})
    document = webhook_document([painter], [ModuleRule("example.com", "things")], b"trust")
    (webhook,) = [
        each for each in document["webhooks"] if each["name"] == "kcp-system.colours.operator.kyma-project.io"
    ]
    (rule,) = webhook["rules"]
    assert (rule["resources"], rule["operations"]) == ([resource], ["CREATE", "UPDATE", "DELETE"])
    assert webhook["clientConfig"]["service"]["path"] == "/validate/painter"
    assert webhook["objectSelector"] == {"matchLabels": {"colour": "red"}}


def test_no_webhook_can_refuse_a_change_or_hold_it_up_for_long() -> None:
    for webhook in webhook_document([watcher()], [ModuleRule("example.com", "things")], b"trust")["webhooks"]:
        assert (webhook["failurePolicy"], webhook["matchPolicy"]) == ("Ignore", "Equivalent")
        assert webhook["sideEffects"] == "NoneOnDryRun"
        assert webhook["timeoutSeconds"] <= 2
