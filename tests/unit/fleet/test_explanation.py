"""`klm explain`: the chain of causes, by the rules of the controllers."""

import io
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import msgspec
import pytest

from kyma_fleet.explanation.chain import Chain, Link, explain_kyma, explain_module, module_of_object
from kyma_fleet.explanation.command import KymaExplanation
from kyma_fleet.explanation.facts import Facts, occurrence_of
from kyma_fleet.screen import Screen
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.releases import by_channel
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import State, as_document, names
from tests import builders
from tests.unit.fleet_page.rollouts import rollout

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
condition = partial(builders.condition, at="2026-11-22T11:00:00Z")
KEDA = builders.template("keda", "1.0.0", installs=True)
NEWER = builders.template("keda", "2.0.0", installs=True)


GOOD = [condition("SKRReachable", "Reachable", "the cluster answers", "True")]


def module(state: str = "Ready", version: str = "1.0.0", **more: Any) -> dict[str, Any]:
    return {"name": "keda", "state": state, "version": version, "channel": "regular", **more}


def released(version: str) -> DatedReleaseMeta:
    document = as_document(builders.release("keda", regular=version))
    document["metadata"]["generation"] = 4
    return msgspec.convert(document, DatedReleaseMeta)


def facts(
    *modules: dict[str, Any],
    conditions: Iterable[dict[str, Any]] = GOOD,
    state: str = "Ready",
    version: str = "1.0.0",
    metadata: dict[str, Any] | None = None,
    **more: Any,
) -> Facts:
    status = {
        "state": state,
        "conditions": list(conditions),
        "modules": list(modules),
        "observedGeneration": 1,
        "activeChannel": "regular",
    }
    kyma = builders.kyma("demo", status=status, **(metadata or {}))
    releases = (released(version),)
    timing = Timing(NOW, {"keda": NOW - timedelta(minutes=1)}, timedelta(0))
    manifest = builders.manifest("keda", "1.0.0", status={"state": "Ready"})
    known: dict[str, Any] = {"timing": timing, "manifests": (manifest,)}
    return Facts(NOW, kyma, Offer.of([KEDA, NEWER], releases), **{**known, **more})


def titles(chain: Chain, mark: str = "") -> list[str]:
    return [each.title for each in chain.links if not mark or each.mark == mark]


def cause_of(chain: Chain) -> Link:
    assert chain.cause is not None
    return chain.cause


def shown(chains: Iterable[Chain], width: int | None = None, events: Any = ()) -> str:
    stream = io.StringIO()
    found = KymaExplanation(at=NOW, kyma="demo", chains=tuple(chains), events=tuple(events))
    found.print_table(Screen(width=width, stream=stream))
    return stream.getvalue()


def test_a_module_in_order_says_by_what_it_is_what_it_is() -> None:
    chain = explain_module(facts(module()), "keda")
    assert chain.cause is None
    assert titles(chain) == ["asked for", "resolved to", "Manifest"]
    assert chain.links[1].text == "1.0.0 (keda-1.0.0), by ModuleReleaseMeta keda generation 4, changed 60s ago"


def test_module_whose_version_was_taken_back_says_by_which_rollout() -> None:
    spec = {"undoes": "keda-regular-2", "version": "1.0.0", "formerVersion": "2.0.0"}
    back = rollout("keda", revision=3, phase="Completed", spec=spec)
    former = rollout("keda", phase="Completed", spec={"version": "2.0.0", "formerVersion": "1.0.0"})
    timing = Timing(NOW, {}, timedelta(0), rollouts=by_channel([former, back]))
    chain = explain_module(facts(module(), version="2.0.0", timing=timing), "keda")
    assert chain.cause is None
    assert chain.links[1].text.startswith("1.0.0 (keda-1.0.0), by ")
    assert chain.links[1].details == ("keda-regular-3 took 2.0.0 of keda-regular-2 back: 1.0.0 is in force",)


def test_rollout_turn_has_its_time() -> None:
    timing = Timing(NOW, {"keda": NOW - timedelta(minutes=1)}, timedelta(days=100))
    chain = explain_module(facts(module(), version="2.0.0", timing=timing), "keda")
    assert (cause_of(chain).title, cause_of(chain).reason) == ("held back", "RolloutPending")
    assert cause_of(chain).text.startswith("2.0.0 is rolled out: this cluster's turn is ")
    assert cause_of(chain).text.endswith(", if the rollout takes 100d (--rollout-max-delay)")


@pytest.mark.parametrize("downtime", [False, True])
def test_cluster_that_waits_for_a_rollout_says_which_and_whether_it_needs_a_window(downtime: bool) -> None:
    offered = builders.template("keda", "2.0.0", installs=True, requires_downtime=downtime)
    spec = {"version": "2.0.0", "formerVersion": "1.0.0"}
    timing = Timing(NOW, {}, timedelta(0), rollouts=by_channel([rollout("keda", phase="Progressing", spec=spec)]))
    offer = Offer.of([KEDA, offered], (released("2.0.0"),))
    chain = explain_module(replace(facts(module(), version="2.0.0", timing=timing), offer=offer), "keda")
    assert (cause_of(chain).title, cause_of(chain).reason) == ("held back", "RolloutPending")
    waits = "2.0.0 is rolled out in waves by keda-regular-2 (Progressing), and was not released to this cluster yet"
    window = ". It requires a downtime: the cluster also needs an open maintenance window"
    assert cause_of(chain).text == (waits + window if downtime else waits)


def test_report_of_lifecycle_manager_precedes_what_is_computed_without_its_options() -> None:
    timing = Timing(NOW, {"keda": NOW - timedelta(minutes=1)}, timedelta(days=100))
    reported = explain_module(facts(module(message="turn at noon"), version="2.0.0", timing=timing), "keda")
    assert cause_of(reported).text == "turn at noon"
    other = explain_module(facts(module(), version="2.0.0"), "keda")
    assert cause_of(other).text.startswith("1.0.0 is installed still: its turn in the rollout has not come")


def test_a_window_is_reported_in_the_words_of_lifecycle_manager() -> None:
    message = "module 'keda' is upgraded in a maintenance window, the next of which begins 2026-11-28T00:00:00+00:00"
    chain = explain_module(facts(module(maintenance=True, message=message)), "keda")
    assert cause_of(chain).text == message


def test_a_downgrade_is_what_holds_a_module_back() -> None:
    installed = builders.manifest("keda", "2.0.0", status={"state": "Ready"})
    chain = explain_module(facts(module("Warning", "2.0.0"), manifests=(installed,)), "keda")
    assert cause_of(chain).reason == "DowngradeNotAllowed"


def test_a_module_that_is_not_offered_lists_what_there_is() -> None:
    chain = explain_module(facts({"name": "kedda", "state": "Error", "channel": "regular"}), "kedda")
    assert (cause_of(chain).title, cause_of(chain).reason) == ("resolved to", "ModuleNotFound")
    assert chain.next_command == "klm get releases"


@pytest.mark.parametrize(
    ("reason", "command"),
    [
        ("AccessSecretMissing", "klm join demo --kubeconfig FILE"),
        ("SKRUnauthorized", "klm join demo --kubeconfig FILE"),
        ("ClusterUnreachable", "klm events demo"),
    ],
)
def test_a_cluster_without_access_is_the_first_cause(reason: str, command: str) -> None:
    broken = facts(module(), conditions=[condition("SKRReachable", reason, "why")], state="Error")
    chains = explain_kyma(broken)
    assert (cause_of(chains[0]).title, cause_of(chains[0]).text) == ("cluster", "why (since 1h)")
    assert chains[0].next_command.startswith(command)
    assert explain_module(broken, "keda").cause == chains[0].cause


def test_a_silent_watcher_is_a_cause_of_the_cluster() -> None:
    silent = [*GOOD, condition("SKRWebhook", "WatcherSilent", "no event for 60 s")]
    chain = explain_kyma(facts(module(), conditions=silent, state="Warning"))[0]
    assert cause_of(chain).title == "Watcher"
    assert chain.next_command == "kubectl -n kyma-system logs deployment/skr-webhook   # in the cluster"


def test_a_refused_object_is_named_in_the_words_of_the_api_server() -> None:
    message = "admission webhook denied the request:\x1b[2J no"
    synced = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "ns", "name": "limits", "state": "Error"}
    status = {
        "state": "Error",
        "objects": "0/1",
        "synced": [{**synced, "message": message}],
        "conditions": [condition("Ready", "ApplyFailed", f"ConfigMap limits: {message}")],
    }
    part = builders.sync_resource(module="keda", status=status)
    broken = facts(module("Error"), sync_resources=(part,), state="Error")
    chain = explain_module(broken, "keda")
    assert cause_of(chain).title == "SyncResource"
    assert "admission webhook denied the request: no" in shown([chain])
    found = module_of_object(broken, "configmap/limits")
    assert found is not None
    assert found[0] == "keda"
    assert module_of_object(broken, "configmap/ns/limits") is not None
    assert module_of_object(broken, "secret/limits") is None


def test_a_module_config_that_fails_with_its_sync_resource_is_not_the_cause() -> None:
    message = [
        condition("Rendered", "Rendered", "", "True"),
        condition("Ready", "PolicyViolation", "not allowed"),
    ]
    config = builders.module_config(module="keda", status={"state": "Error", "conditions": message}, uid="of-config")
    owner = {"apiVersion": "v1", "kind": "ModuleConfig", "name": config.metadata.name, "uid": "of-config"}
    status = {"state": "Error", "conditions": [condition("Ready", "PolicyViolation", "not allowed")]}
    part = builders.sync_resource(module="keda", status=status, ownerReferences=[owner])
    chain = explain_module(facts(module("Error"), configs=(config,), sync_resources=(part,)), "keda")
    assert titles(chain, "note") == ["ModuleConfig"]
    assert (cause_of(chain).title, chain.next_command) == ("SyncResource", "kubectl -n kcp-system get modulepolicies")
    refused = builders.module_config(
        module="keda", status={"state": "Error", "conditions": [condition("Rendered", "X")]}
    )
    assert titles(explain_module(facts(module("Error"), configs=(refused,)), "keda"), "bad") == ["ModuleConfig"]


def test_a_failed_manifest_shows_the_condition_below_its_sum() -> None:
    status = {
        "state": "Error",
        "conditions": [
            condition("Ready", "LayerNotFound", "sum"),
            condition("Resources", "LayerNotFound", "the registry has no such layer"),
        ],
    }
    failed = builders.manifest("keda", "1.0.0", status=status)
    chain = explain_module(facts(module("Error"), manifests=(failed,)), "keda")
    assert cause_of(chain).text == "demo-keda is Error: the registry has no such layer (since 1h)"


def test_paused_precedes_everything_and_names_who_did_it() -> None:
    group = names.GROUP
    marks = {
        f"{group}/paused-by": "ada",
        f"{group}/paused-at": "2026-11-22T10:00:00+00:00",
        f"{group}/paused-reason": "x",
    }
    metadata = {"labels": {names.SKIP_RECONCILIATION: "true"}, "annotations": marks}
    chains = explain_kyma(facts(module(), metadata=metadata))
    assert cause_of(chains[0]).text == "nothing is installed, upgraded or removed; by ada 2h ago: x"
    assert chains[0].next_command == "klm resume demo"


def test_a_new_kyma_is_not_reconciled_yet() -> None:
    new = facts(conditions=[])
    chain = explain_kyma(replace(new, manifests=()))[0]
    assert chain.state is State.READY
    assert titles(chain, "wait") == ["reconciled"]
    assert chain.next_command == "klm status"


def test_lines_are_wrapped_to_a_terminal_with_the_last_events() -> None:
    event = {
        "metadata": {"creationTimestamp": "2026-11-22T11:58:00Z"},
        "type": "Warning",
        "reason": "ModuleError",
        "note": "module keda: " + "x" * 100,
        "regarding": {"kind": "Kyma", "namespace": "kcp-system", "name": "demo"},
        "series": {"count": 3, "lastObservedTime": "2026-11-22T11:59:30.000000Z"},
    }
    long = facts(module("Error", message="y" * 300), state="Error")
    text = shown([explain_module(long, "keda")], width=80, events=[occurrence_of(event)])
    assert all(len(line) <= 80 for line in text.splitlines())
    assert " 30s ago  Warning ModuleError, Kyma demo, 3 times" in text
    assert text.startswith("demo/keda is Error: status: yyy")
