"""`klm status`: what is counted, as by the page and the metrics, what is wrong, and that a large fleet keeps little."""

import io
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import msgspec

from kyma_fleet.replicas import Replica
from kyma_fleet.screen import Screen
from kyma_fleet.status import FleetReading, status_of
from kyma_fleet_page.fleet import NEW, Fleet
from lifecycle_manager.contract.fleet import WORST, ClusterSummary, FleetCounts, counts_of
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.kyma.fleet_metrics import FleetCollector
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager_api import Kyma, State, names
from tests import builders
from tests.builders import condition, module_status
from tests.unit.fleet_page.rollouts import rollout

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TEMPLATE = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": "x"}}


def counted(name: str, state: str = "Ready", *conditions: dict[str, Any], modules: Any = (), **metadata: Any) -> Kyma:
    status = {"state": state, "conditions": list(conditions), "modules": list(modules)}
    return builders.kyma(name, status=status, **metadata)


def replica(name: str = "lm-0", seconds: int = 3) -> Replica:
    return Replica(name, NOW - timedelta(seconds=seconds), timedelta(seconds=10))


def release(version: str) -> DatedReleaseMeta:
    document = {
        "metadata": {"name": "keda", "managedFields": [{"time": "2026-11-22T11:56:00Z"}]},
        "spec": {"moduleName": "keda", "channels": [{"channel": "regular", "version": version}]},
    }
    return msgspec.convert(document, DatedReleaseMeta, strict=False)


def reading(*kymas: Kyma, replicas: tuple[Replica, ...] = (replica(),), **more: Any) -> FleetReading:
    return FleetReading(counts_of(map(ClusterSummary.of, kymas)), replicas, **more)


def shown(found: FleetReading, width: int | None = None) -> str:
    stream = io.StringIO()
    status_of(found, NOW).print_table(Screen(width=width, stream=stream))
    return stream.getvalue()


def test_a_fleet_in_order_is_not_wrong() -> None:
    found = reading(counted("a", modules=[module_status()]))
    assert found.wrong(NOW) == ()
    assert shown(found).endswith("\nnothing is wrong\n")


def test_worst_clusters_come_first_with_their_cause() -> None:
    found = reading(
        counted("late", "Error", condition("Ready", "ClusterUnreachable", "timed out", at="2026-11-22T11:30:00Z")),
        counted("warned", "Warning", condition("Ready", "ModuleWarning", "slow", at="2026-11-22T09:00:00Z")),
        counted(
            "early",
            "Error",
            condition("Ready", "AccessSecretMissing", "no\x1b[1m Secret", at="2026-11-22T10:00:00Z"),
        ),
    )
    assert [each.kyma for each in found.counts.fault("broken").worst] == ["early", "late", "warned"]
    text = shown(found)
    assert "early           Error    2h     AccessSecretMissing: no Secret" in text
    assert "wrong: 2 Kymas in state Error; 1 Kyma in state Warning" in text
    assert "next:  klm explain early" in text
    assert "not ready: AccessSecretMissing 1, ClusterUnreachable 1, ModuleWarning 1" in text


def test_rollout_counts_clusters_with_the_version_and_those_that_wait_for_a_window() -> None:
    found = reading(
        counted("new", modules=[module_status(version="2.0.0")]),
        counted("old", modules=[module_status(version="1.0.0")]),
        counted("window", modules=[module_status(version="1.0.0", maintenance=True)]),
        counted("unmanaged", modules=[module_status(version="1.0.0", state="Unmanaged")]),
        releases=(release("2.0.0"),),
    )
    text = shown(found)
    assert "keda     regular  2.0.0  -      1/3      1                4m" in text
    assert "keda    1.0.0    2      1" in text
    assert found.wrong(NOW) == ()


def test_channel_whose_version_was_taken_back_counts_what_the_undo_returns_to() -> None:
    spec = {"undoes": "keda-regular-2", "version": "1.0.0", "formerVersion": "2.0.0"}
    former = rollout("keda", phase="Completed", spec={"version": "2.0.0", "formerVersion": "1.0.0"})
    back = rollout("keda", revision=3, phase="Completed", spec=spec, updated=1, clusters=1)
    on_the_way_back = counted("back", modules=[module_status(version="1.0.0")])
    text = shown(reading(on_the_way_back, releases=(release("2.0.0"),), rollouts=(former, back)))
    assert "keda     regular  1.0.0  Completed  1/1      .                -" in text
    assert "keda in channel regular: keda-regular-3 took 2.0.0 of keda-regular-2 back: 1.0.0 is in force" in text


def test_halted_rollout_is_wrong_and_counts_failed_clusters_as_the_rollout_does() -> None:
    halted = rollout("keda", spec={"version": "2.0.0", "formerVersion": "1.0.0"}, updated=0, clusters=2)
    found = reading(
        counted("canary", "Error", modules=[module_status(version="2.0.0", state="Error")]),
        counted("other", modules=[module_status(version="1.0.0")]),
        releases=(release("2.0.0"),),
        rollouts=(halted,),
    )
    assert "keda     regular  2.0.0  Halted  0/2      .                4m" in shown(found)
    assert found.wrong(NOW) == ("1 Kyma in state Error", "rollout keda-regular-2 halted")


def test_silent_watchers_missing_certificates_and_replicas_are_wrong() -> None:
    late = "the Watcher's certificate ends at 2026-12-01 00:00 UTC, and was not renewed in time"
    found = reading(
        counted("silent", "Ready", condition("SKRWebhook", "WatcherSilent", "no event for 60 s")),
        counted("bare", "Ready", condition("SKRWebhook", "CertificatePending", "waits")),
        counted("late", "Ready", condition("SKRWebhook", "CertificateRenewalOverdue", late, "True")),
        replicas=(replica("lm-0"), replica("lm-1", 60)),
    )
    assert found.wrong(NOW) == (
        "1 Kyma without events",
        "1 Kyma without a certificate for the Watcher",
        "1 Kyma with a certificate that was not renewed",
        "1 replica of Lifecycle Manager did not renew the Lease",
    )
    assert f"CertificateRenewalOverdue: {late}" in shown(found)
    assert reading(counted("a"), replicas=()).wrong(NOW) == ("no replica of Lifecycle Manager has a Lease",)


def test_names_that_users_made_up_cost_nothing() -> None:
    counts = FleetCounts()
    for number in range(200):
        made_up = module_status(f"made-up-{number}", state="Error", template=None)
        kyma = counted(f"k{number:03}", "Error", condition("Ready", "ModuleError"), modules=[made_up])
        counts = counts_of([ClusterSummary.of(kyma)], counts)
    assert list(counts.modules) == [("", "", "", State.ERROR)]
    assert [(each.cause, each.clusters) for each in counts.causes] == [("ModuleError", 200)]
    assert [each.kyma for each in counts.fault("broken").worst] == [f"k{number:03}" for number in range(WORST)]
    text = shown(FleetReading(counts, (replica(),)))
    assert f"and {200 - WORST} more" in text
    assert "(not in the catalog)  -        200" in text


def test_paused_and_unreachable_clusters_are_counted_and_lines_fit_the_screen() -> None:
    paused = {names.SKIP_RECONCILIATION: "true"}
    found = reading(counted("p", "Error", condition("SKRReachable", "ClusterUnreachable", "x" * 300), labels=paused))
    text = shown(found, width=80)
    assert text.startswith("1 Kyma · 1 Error · 1 paused · 1 unreachable\n")
    assert all(len(line) <= 80 for line in text.splitlines())


def samples_of(kymas: list[Kyma], name: str, *labels: str) -> dict[tuple[str, ...], float]:
    """Return the samples of a metric by the values of some labels."""
    offers: Any = SimpleNamespace(current=lambda: Offer.of([], []))
    families = FleetCollector(lambda: kymas, tuple, tuple, offers, lambda _: True).collect()
    (family,) = (each for each in families if each.name == name)
    return {tuple(each.labels[label] for label in labels): each.value for each in family.samples}


def test_status_page_and_metrics_say_the_same_of_a_fleet() -> None:
    broken = condition("Ready", "ModuleError", "no nodes")
    removed = module_status("istio", state="Deleting", template=None, manifest=TEMPLATE)
    made_up = module_status("made-up", state="Error", template=None)
    kymas = [
        counted("a", modules=[module_status(), removed]),
        counted("b", "Error", broken, modules=[module_status(state="Error"), made_up]),
        counted("c", "Error", broken, modules=[module_status(state="Error")]),
        counted("d", "Processing", condition("Ready", "ModulesProcessing"), modules=[module_status(version="2.0.0")]),
        counted("e", "Ready", condition("SKRWebhook", "WatcherSilent", "no event for 60 s")),
        counted("f", ""),
    ]
    status, page = status_of(reading(*kymas), NOW), Fleet().updated(kymas)

    states = {"Ready": 2, "Error": 2, "Processing": 1, "": 1}
    assert status.states == states
    assert page.states == {state or NEW: count for state, count in states.items()}
    assert samples_of(kymas, "lifecycle_mgr_kymas", "state") == {(state,): count for state, count in states.items()}

    modules = {("istio", "1.0.0", "Deleting"): 1, ("keda", "1.0.0", "Ready"): 1}
    modules |= {("keda", "1.0.0", "Error"): 2, ("keda", "2.0.0", "Ready"): 1}
    of_status = {
        (each.module, each.version, state): count for each in status.modules for state, count in each.states.items()
    }
    assert of_status == {**modules, ("(not in the catalog)", "-", "Error"): 1}
    of_page = {
        (name, version, state): count
        for name, counts in page.modules.items()
        for (version, _channel, state), count in counts.items()
    }
    assert of_page == modules
    of_metrics = samples_of(kymas, "lifecycle_mgr_modules", "module_name", "version", "state")
    assert of_metrics == {**modules, ("", "", "Error"): 1}

    causes = [("ModuleError keda", 2), ("ModulesProcessing", 1), ("NotReported", 1)]
    assert [(each.cause, each.clusters) for each in status.causes] == causes
    assert [(each.cause, each.clusters) for each in page.counts.causes] == causes
    assert list(status.wrong) == page.counts.wrong() == ["2 Kymas in state Error", "1 Kyma without events"]
    without_events = {("e", "WatcherSilent"): 1}
    assert {(each.kyma, each.reason): 1 for each in status.faults["withoutEvents"].worst} == without_events
    assert samples_of(kymas, "lifecycle_mgr_skr_event_path_broken", "kyma_name", "reason") == without_events
