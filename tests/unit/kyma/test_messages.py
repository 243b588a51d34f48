"""What a Kyma says of its modules: the causes as their users know them, and nothing of the control plane in the SKR."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager.catalog_sync import status as catalog
from lifecycle_manager.contract import conditions as contract_conditions
from lifecycle_manager.contract import verdict
from lifecycle_manager.contract.conditions import PUBLIC_REASONS
from lifecycle_manager.kyma.causes import (
    HIDDEN,
    MAX_CAUSES,
    MAX_MESSAGE_LENGTH,
    MAX_SUMMARY_LENGTH,
    Cause,
    format_causes,
)
from lifecycle_manager.kyma.events import events_between, for_operators
from lifecycle_manager.kyma.rules import visible_metadata
from lifecycle_manager.kyma.snapshot import KymaSnapshot, SkrView
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.module_installation import status as installation
from lifecycle_manager.module_installation.rendering import ObjectsForbidden
from lifecycle_manager.object_set import policy
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.skr_webhook import status as watcher
from lifecycle_manager.sync_resource import status as sync_resource
from lifecycle_manager_api import Kyma, KymaStatus, Manifest, ModuleConfig, State, find, names
from tests import builders
from tests.builders import condition
from tests.unit.kyma import planning, steps
from tests.unit.kyma.planning import planned

TOO_WIDE = "VPC peering all is with the whole internet"
OFFER = Offer.of([builders.template(installs=True)], [builders.release(regular="0.1.0")])
NOTHING_TO_INSTALL = Offer.of([builders.template()], [builders.release(regular="0.1.0")])
REQUESTED = [{"name": "cloud-resources", "managed": True}]
SECRET = "kcp-only"
NOT_FOUND = replace(OFFER, problems={"cloud-resources-0.1.0": f"no answer of {SECRET}"})
UNVERIFIED = replace(OFFER, unverified={"cloud-resources-0.1.0": f"there is no Secret {SECRET}"})
"""A mark in all names of objects in KCP, and in what its conditions say of hosts and Secrets there."""


WATCHER = condition("SKRWebhook", "WatcherReady", status="True")
CATALOG = condition("ModuleCatalog", "Synced", status="True")
UNREACHABLE = condition("SKRReachable", "AccessSecretUnusable", "Secret kcp-system/kcp-only: no kubeconfig")
OTHERS_READY = {"conditions": [WATCHER, CATALOG]}


def current(**given: Any) -> Kyma:
    return builders.kyma("demo", records={"kymaCrd": "hash"}, **{"status": OTHERS_READY} | given)


def in_skr(of: Kyma, modules: Sequence[dict[str, Any]] = REQUESTED) -> Kyma:
    labels, annotations = visible_metadata(of)
    return builders.kyma(
        "default",
        labels=labels,
        annotations=annotations,
        namespace="kyma-system",
        finalizers=[],
        modules=list(modules),
        generation=5,
    )


def seen(kyma_in_kcp: Kyma, offer: Offer = NOTHING_TO_INSTALL, **parts: Any) -> KymaSnapshot:
    return planning.snapshot(kyma_in_kcp, SkrView(in_skr(kyma_in_kcp)), offer, **parts)


def written(snapshot: KymaSnapshot) -> tuple[KymaStatus, KymaStatus]:
    decided = planned(snapshot)
    return decided.status, decided.shown


def condition_of(status: KymaStatus, kind: str) -> tuple[str, str, str]:
    found = find(status.conditions, kind)
    assert found is not None
    return found.status, found.reason, found.message


def config(name: str = "bad", *, namespace: str = "kyma-system", **status: Any) -> ModuleConfig:
    reference = {
        "apiVersion": "cloud-resources.kyma-project.io/v1beta1",
        "kind": "Infrastructure",
        "namespace": namespace,
        "name": name,
        "uid": f"uid-of-{name}",
        "generation": 3,
    }
    return builders.module_config(
        f"demo-{SECRET}-{name}", spec={"resourceRef": reference}, status=status, generation=2, uid=f"uid-{name}"
    )


def refused(name: str = "bad", message: str = TOO_WIDE, reason: str = "NetworkTooWide", **given: Any) -> ModuleConfig:
    conditions = [condition(kind, reason, message, generation=2) for kind in ("Rendered", "Ready")]
    return config(name, state="Error", observedGeneration=2, conditions=conditions, **given)


def test_mistake_in_a_module_cr_is_reported_as_the_module_manager_words_it() -> None:
    for status in written(seen(current(), module_configs=(refused(),))):
        (module,) = status.modules
        cause = f"Infrastructure bad: {TOO_WIDE} (NetworkTooWide)"
        assert (module.state, module.message) == (State.ERROR, cause)
        whole = f"0 of 1 module is ready; cloud-resources: {cause}"
        assert condition_of(status, "Modules") == ("False", "ModulesNotReady", whole)
        assert condition_of(status, "Ready") == ("False", "ModuleError", whole)
        assert status.last_operation is not None
        assert status.last_operation.operation == f"kyma is error: {whole}"


def test_module_cr_in_another_namespace_is_named_with_it() -> None:
    _, inner = written(seen(current(), module_configs=(refused(namespace="shop"),)))
    assert inner.modules[0].message.startswith("Infrastructure shop/bad: ")


def test_worst_three_causes_are_reported_and_the_others_counted() -> None:
    waiting = [config(f"new-{number}") for number in range(3)]
    wrong = [refused(f"bad-{number}", "no", "Wrong") for number in range(2)]
    _, inner = written(seen(current(), module_configs=(*waiting, *wrong)))
    assert inner.modules[0].message == (
        "Infrastructure bad-0: no (Wrong); Infrastructure bad-1: no (Wrong); "
        "Infrastructure new-0: waits for the module manager (WaitingForModuleManager) and 2 more"
    )


def test_refused_object_is_reported_in_the_words_of_the_api_server() -> None:
    message = 'document 1: NetworkPolicy kyma-system/all: Forbidden: "0.0.0.0/0"'
    resource = builders.sync_resource(
        "demo-cloud-resources",
        annotations={names.MODULE_CONFIG_GENERATION: "2"},
        status={
            "state": "Error",
            "observedGeneration": 1,
            "conditions": [condition("Ready", "ApplyFailed", message)],
        },
        ownerReferences=[{"apiVersion": "v1", "kind": "ModuleConfig", "name": "x", "uid": "uid-bad"}],
    )
    own = builders.module_config("x", spec=msgspec.to_builtins(config().spec), generation=2, uid="uid-bad")
    _, inner = written(seen(current(), module_configs=(own,), sync_resources=(resource,)))
    assert inner.modules[0].message == f"Infrastructure bad: {message} (ApplyFailed)"


def manifest(state: str, reason: str, message: str) -> Manifest:
    status = {"state": state, "conditions": [condition("Ready", reason, message)]}
    return builders.manifest(status=status)


def installed(broken: Manifest) -> KymaSnapshot:
    """Return a snapshot in which the Manifest is as it has to be, but for its state."""
    base = seen(current(), OFFER)
    (applied,) = [each.manifest for each in planned(base).changes if isinstance(each, steps.ApplyManifest)]
    return replace(base, manifests=(msgspec.structs.replace(applied, status=broken.status),))


def test_manifest_is_reported_with_its_reason_and_the_object() -> None:
    message = "Deployment kyma-system/manager: 0 of 1 replica is available"
    _, inner = written(installed(manifest("Processing", "ManagerNotReady", message)))
    assert inner.modules[0].message == f"{message} (ManagerNotReady)"
    assert condition_of(inner, "Ready")[1] == "ModuleProcessing"


def test_deletion_that_is_held_is_a_warning_for_operators() -> None:
    what = f"waits for an operator's word: klm continue demo (deleted in the control plane: CRD {SECRET})"
    held = {"state": "Deleting", "conditions": [condition("Ready", "DeletionHeld", what)]}
    gone: dict[str, Any] = {"deletionTimestamp": "2026-11-01T12:00:00Z"}
    of_a_manager = builders.sync_resource(f"demo-{SECRET}-bad", status=held, **gone)
    whole = builders.manifest(status=held, **gone)
    for snapshot in (
        seen(current(), module_configs=(config(),), sync_resources=(of_a_manager,)),
        seen(current(), sync_resources=(of_a_manager,)),
        seen(current(), OFFER, manifests=(whole,)),
    ):
        outer, inner = written(snapshot)
        assert (outer.state, outer.modules[0].state) == (State.WARNING, State.WARNING)
        assert outer.modules[0].message.startswith(f"{what} (DeletionHeld)")
        assert SECRET not in msgspec.json.encode(inner).decode()


def test_hosts_of_the_control_plane_are_shown_to_its_operators_alone() -> None:
    message = "registry.internal.example answers 401 for modules/telemetry; check the registry's credentials"
    outer, inner = written(installed(manifest("Error", "RegistryAccessRefused", message)))
    assert outer.modules[0].message == f"{message} (RegistryAccessRefused)"
    assert inner.modules[0].message == f"{HIDDEN} (RegistryAccessRefused)"
    assert "internal.example" not in msgspec.json.encode(inner).decode()


def test_text_for_users_that_differs_is_not_written_again() -> None:
    base = installed(manifest("Error", "RegistryAccessRefused", "registry.internal.example is away"))
    outer, inner = written(base)
    skr = msgspec.structs.replace(in_skr(base.kyma), status=inner)
    later = Timing(builders.NOW + timedelta(minutes=1))
    settled = replace(base, kyma=msgspec.structs.replace(base.kyma, status=outer), skr=SkrView(skr), timing=later)
    decided = planned(settled)
    assert decided.is_quiet


@pytest.mark.parametrize(
    ("broken", "state", "reason"),
    [
        ([condition("SKRWebhook", "WatcherSilent", "no events"), CATALOG], "Warning", "WatcherSilent"),
        ([CATALOG], "Processing", "WatcherPending"),
        ([WATCHER, condition("ModuleCatalog", "CatalogSyncFailed")], "Warning", "CatalogSyncFailed"),
    ],
)
def test_ready_has_the_reason_of_what_is_wrong(broken: list[dict[str, Any]], state: str, reason: str) -> None:
    ready = config("good", state="Ready", observedGeneration=2)
    outer, _ = written(seen(current(status={"conditions": broken}), module_configs=(ready,)))
    assert (outer.state, condition_of(outer, "Ready")[:2]) == (state, ("False", reason))
    assert condition_of(outer, "Modules")[2] == "1 of 1 module is ready"


def test_numbers_of_modules_are_counted_in_words() -> None:
    base = seen(current())
    assert (
        condition_of(written(replace(base, skr=SkrView(in_skr(base.kyma, []))))[0], "Modules")[2]
        == "no modules are enabled"
    )
    two = [*REQUESTED, {"name": "tpyo", "managed": True}]
    _, _, message = condition_of(written(replace(base, skr=SkrView(in_skr(base.kyma, two))))[0], "Modules")
    assert message == (
        "1 of 2 modules is ready; tpyo: the module is not in the catalog for channel 'regular'; check its name "
        "(ModuleNotFound)"
    )


def test_event_has_the_cause_and_is_not_repeated_for_the_kyma() -> None:
    ready = config("bad", state="Ready", observedGeneration=2)
    before, _ = written(seen(current(), module_configs=(ready,)))
    after, _ = written(seen(current(status=msgspec.to_builtins(before)), module_configs=(refused(),)))
    note = f"module cloud-resources: Infrastructure bad: {TOO_WIDE} (NetworkTooWide)"
    assert [(each.reason, each.note) for each in events_between(before, after)] == [("ModuleError", note)]
    assert [each.reason for each in events_between(after, before)] == ["ModuleReady", "Ready"]
    waiting, _ = written(seen(current(), module_configs=(config(),)))
    assert events_between(before, waiting) == ()


def test_modules_ready_at_the_same_time_are_one_event_that_operators_do_not_get() -> None:
    def status(state: str) -> KymaStatus:
        modules = [{"name": name, "version": "1.0.0", "state": state} for name in ("api", "nats")]
        ready = {"type": "Ready", "status": "True", "reason": "Ready", "message": ""}
        return builders.kyma(status={"state": state, "modules": modules, "conditions": [ready]}).status

    of_users = events_between(status("Processing"), status("Ready"))
    assert [(each.reason, each.note) for each in of_users] == [
        ("ModuleReady", "modules api 1.0.0, nats 1.0.0 are ready"),
        ("Ready", ""),
    ]
    assert [each.reason for each in for_operators(of_users)] == ["Ready"]
    removed = events_between(status("Ready"), KymaStatus(state=State.READY))
    assert [each.note for each in removed] == ["modules api, nats are removed"]


STATES = st.sampled_from([state.value for state in State])
REASONS = st.sampled_from(
    [
        "ApplyFailed",
        "PolicyViolation",
        "Conflict",
        "SourceUnreachable",
        "AccessSecretUnusable",
        "KymaDeleting",
        "X" * 900,
    ]
)
TEXTS = st.sampled_from(["", "short", "line one\nline two", "long " * 400])


@st.composite
def conditions(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Generate conditions; what LM found about the control plane names it, what users and teams say does not."""
    reason, text = draw(REASONS), draw(TEXTS)
    is_reported = reason in {"ApplyFailed", "PolicyViolation"} or reason.startswith("X")
    return [
        condition(
            "Ready", reason, text if is_reported else f"{SECRET} {text}", generation=draw(st.sampled_from([1, 2]))
        )
    ]


@st.composite
def parts(draw: st.DrawFn) -> dict[str, Any]:
    configs = tuple(
        config(f"cr-{number}", state=draw(STATES), observedGeneration=draw(st.sampled_from([1, 2])))
        for number in range(draw(st.integers(0, 5)))
    )
    resources = tuple(
        builders.sync_resource(
            draw(st.sampled_from([f"demo-{SECRET}-cr-{number}", f"{SECRET}-{number}"])),
            annotations={names.MODULE_CONFIG_GENERATION: draw(st.sampled_from(["1", "2"]))},
            status={"state": draw(STATES), "observedGeneration": 1, "conditions": draw(reported_or_not())},
        )
        for number in range(draw(st.integers(0, 5)))
    )
    broken = builders.manifest(
        status={"state": draw(STATES), "conditions": draw(reported_or_not())},
        deletionTimestamp=draw(st.sampled_from([None, "2026-11-01T12:00:00Z"])),
    )
    broken = msgspec.structs.replace(
        broken, metadata=msgspec.structs.replace(broken.metadata, name=f"{SECRET}-manifest")
    )
    return {
        "module_configs": configs,
        "sync_resources": resources,
        "manifests": draw(st.sampled_from([(), (broken,)])),
    }


def reported_or_not() -> st.SearchStrategy[list[dict[str, Any]]]:
    """Generate the conditions of a Manifest or SyncResource; a reason that is made up may say anything."""
    return conditions().map(
        lambda found: [
            each | {"message": f"{SECRET} {each['message']}"} if each["reason"][0] == "X" else each for each in found
        ]
    )


@given(parts(), st.sampled_from([OFFER, NOTHING_TO_INSTALL, NOT_FOUND, UNVERIFIED]), st.booleans(), conditions())
def test_nothing_that_is_written_to_the_skr_names_an_object_of_the_control_plane(
    found: dict[str, Any], offer: Offer, is_deleted: bool, webhook: list[dict[str, Any]]
) -> None:
    webhook = [each | {"type": "SKRWebhook", "reason": each["reason"][:60]} for each in webhook]
    hidden = [each | {"message": SECRET} if each["reason"][0] == "X" else each for each in webhook]
    times = {"deletionTimestamp": "2026-11-01T11:00:00Z"} if is_deleted else {}
    decided = planned(seen(current(status={"conditions": [*hidden, CATALOG, UNREACHABLE]}, **times), offer, **found))
    for action in decided.in_skr:
        if isinstance(action, steps.WriteSkrStatus):
            assert SECRET not in msgspec.json.encode(action.status).decode()
            assert all(SECRET not in event.note for event in events_between(KymaStatus(), action.status))
            assert all(len(module.message) <= MAX_MESSAGE_LENGTH for module in action.status.modules)
            states = {module.state for module in action.status.modules}
            assert action.status.state is not State.READY or states <= {State.READY, State.UNMANAGED}
            assert all(module.message for module in action.status.modules if module.state is not State.READY)


def test_reasons_with_which_a_message_is_shown_to_users_are_in_use() -> None:
    modules = (catalog, installation, contract_conditions, verdict, policy, sync_resource, watcher)
    used = {value for module in modules for value in vars(module).values() if isinstance(value, str)}
    of_module_crs = {f"ModuleCR{state}" for state in State}
    assert used | of_module_crs | {ObjectsForbidden.reason} >= PUBLIC_REASONS


CAUSES = st.lists(
    st.builds(
        Cause,
        st.sampled_from([state for state in State if state not in {State.READY, State.UNMANAGED}]),
        st.text(max_size=200),
        st.text(max_size=2000),
        st.text(max_size=400),
    ),
    max_size=30,
)


@given(CAUSES, st.sampled_from([MAX_MESSAGE_LENGTH, MAX_SUMMARY_LENGTH]))
def test_text_of_causes_is_bounded_and_counts_what_it_leaves_out(causes: list[Cause], max_length: int) -> None:
    text = format_causes(causes, max_length)
    assert len(text) <= max_length
    assert bool(text) is bool(causes)
    left = len(causes) - MAX_CAUSES
    assert text.endswith(f" and {left} more") if left > 0 else True
