"""What users see of a Module CR, from the ModuleConfig and its SyncResources."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager.contract.verdict import (
    MAX_STATUS_BYTES,
    Verdict,
    belongs_to,
    config_of,
    module_fields_of,
    verdict_of,
)
from lifecycle_manager_api import ModuleConfig, State, SyncResource, names
from tests import builders
from tests.builders import condition

TIME = "2026-11-01T12:00:00Z"
REFERENCE = {
    "apiVersion": "cloud-resources.kyma-project.io/v1beta1",
    "kind": "Infrastructure",
    "namespace": "kyma-system",
    "name": "default",
    "uid": "uid-of-cr",
    "generation": 7,
}
OBJECT = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one", "state": "Ready"}


def config(*, generation: int = 2, status: dict[str, Any] | None = None, **metadata: Any) -> ModuleConfig:
    spec = {"resource": "text", "resourceRef": REFERENCE}
    return builders.module_config(spec=spec, status=status, generation=generation, **metadata)


def made(
    of_generation: int | None = 2, *, generation: int = 4, status: dict[str, Any] | None = None, **metadata: Any
) -> SyncResource:
    """Return a SyncResource that was made from a generation of the ModuleConfig; applied, unless `status` is given."""
    annotations = {names.MODULE_CONFIG_GENERATION: str(of_generation)} if of_generation is not None else {}
    applied = {"state": "Ready", "observedGeneration": generation, "synced": [OBJECT]}
    given: dict[str, Any] = {"generation": generation, "annotations": annotations} | metadata
    return builders.sync_resource(status=applied if status is None else status, **given)


def failed(state: str, reason: str, message: str, **more: Any) -> dict[str, Any]:
    return {
        "state": state,
        "observedGeneration": 4,
        "conditions": [condition("Ready", reason, message)],
        **more,
    }


def short(verdict: Verdict) -> tuple[State, str, str]:
    return verdict.state, verdict.reason, verdict.message


def test_applied_objects_of_the_current_text_are_ready() -> None:
    verdict = verdict_of(config(), [made()])
    assert verdict == Verdict(State.READY, "Applied", "1 object is applied and ready", 7)


def test_objects_of_an_earlier_text_are_not_ready() -> None:
    verdict = verdict_of(config(), [made(1)])
    assert short(verdict) == (State.PROCESSING, "WaitingForModuleManager", "waits for the module manager")
    assert not verdict.is_settled


def test_unwritten_sync_resource_is_waited_for() -> None:
    assert verdict_of(config(), []).reason == "WaitingForModuleManager"


def test_sync_resource_that_is_not_applied_yet_is_processing() -> None:
    verdict = verdict_of(config(), [made(status={"state": "Ready", "observedGeneration": 3})])
    assert short(verdict) == (State.PROCESSING, "Applying", "its objects are being applied")


def test_same_objects_for_another_text_are_ready_once_the_manager_says_so() -> None:
    """The manager writes no SyncResource where its text is the same; then its status tells."""
    before = config(status={"state": "Ready", "observedGeneration": 1})
    assert verdict_of(before, [made(1)]).state is State.PROCESSING
    after = config(status={"state": "Ready", "observedGeneration": 2})
    assert verdict_of(after, [made(1)]).state is State.READY


def test_manager_that_has_not_seen_its_objects_applied_is_believed() -> None:
    ready = condition("Ready", "NotApplied", "generation 4 is not applied yet", generation=2)
    status = {"state": "Processing", "observedGeneration": 2, "conditions": [ready]}
    assert verdict_of(config(status=status), [made(1)]).state is State.PROCESSING


def test_failure_of_an_earlier_text_does_not_count_while_the_manager_waits() -> None:
    """The newer SyncResource may not have arrived here."""
    status = {"state": "Processing", "observedGeneration": 2}
    seen = made(1, status=failed("Error", "ApplyFailed", "refused"))
    assert verdict_of(config(status=status), [seen]).state is State.PROCESSING


def test_late_status_of_the_manager_does_not_hide_applied_objects() -> None:
    conditions = [
        condition("Rendered", "Rendered", "", "True", generation=2),
        condition("Ready", "NotApplied", "", generation=2),
    ]
    status = {"state": "Processing", "observedGeneration": 2, "conditions": conditions}
    assert verdict_of(config(status=status), [made(2)]).state is State.READY


def test_refusal_of_the_manager_is_reported_in_its_words() -> None:
    refused = condition("Rendered", "NetworkTooWide", "VPC peering all is with the whole internet", generation=2)
    status = {"state": "Error", "observedGeneration": 2, "conditions": [refused]}
    verdict = verdict_of(config(status=status), [made(1)])
    assert verdict == Verdict(State.ERROR, "NetworkTooWide", "VPC peering all is with the whole internet", 7)


def test_refusal_of_an_earlier_text_does_not_count() -> None:
    refused = condition("Rendered", "NetworkTooWide", "too wide", generation=1)
    status = {"state": "Error", "observedGeneration": 1, "conditions": [refused]}
    assert verdict_of(config(status=status), [made(2)]).state is State.READY
    assert verdict_of(config(status=status), [made(1)]).reason == "WaitingForModuleManager"


@pytest.mark.parametrize("reason", ["ApplyFailed", "PolicyViolation", "InvalidResource"])
def test_refused_object_is_named(reason: str) -> None:
    message = "document 0: Deployment shop/web: spec.replicas: must be positive"
    verdict = verdict_of(config(), [made(status=failed("Error", reason, message))])
    assert short(verdict) == (State.ERROR, reason, message)


def test_failure_of_an_earlier_text_does_not_count() -> None:
    verdict = verdict_of(config(), [made(1, status=failed("Error", "ApplyFailed", "refused"))])
    assert verdict.reason == "WaitingForModuleManager"


def test_object_that_is_not_ready_is_named_with_its_time() -> None:
    waits = OBJECT | {"kind": "Deployment", "name": "web", "state": "Processing", "message": "0 of 1 replicas"}
    status = failed("Processing", "ObjectsNotReady", "Deployment web: 0 of 1 replicas", synced=[OBJECT, waits])
    verdict = verdict_of(config(), [made(status=status)])
    assert verdict.message == "waits for Deployment shop/web: 0 of 1 replicas, since 12:00:00 UTC"
    assert not verdict.is_settled


def test_worst_of_several_sync_resources_counts() -> None:
    waits = made(name="a", status={"state": "Ready", "observedGeneration": 3}, ownerReferences=[owner()])
    broken = made(name="b", status=failed("Error", "ApplyFailed", "refused"), ownerReferences=[owner()])
    assert verdict_of(config(), [waits, made(), broken]).message == "refused"


@pytest.mark.parametrize("reason", ["ModuleCRTooLarge", "ModuleCRUnreadable", "QuotaExceeded"])
def test_module_cr_that_cannot_be_taken_is_an_error(reason: str) -> None:
    status = {"conditions": [condition("Synced", reason, "too large")]}
    assert short(verdict_of(config(status=status), [made()])) == (State.ERROR, reason, "too large")


def test_messages_that_name_what_is_in_kcp_stay_there() -> None:
    secret = "Secret kcp-system/kubeconfig-demo has no readable kubeconfig"
    unread = config(status={"conditions": [condition("Synced", "AccessSecretIncomplete", secret)]})
    unapplied = made(status=failed("Error", "AccessSecretIncomplete", secret))
    conflict = made(status=failed("Error", "Conflict", "document 0: ConfigMap a belongs to SyncResource other"))
    for verdict in (verdict_of(unread, [made()]), verdict_of(config(), [unapplied])):
        assert (verdict.state, verdict.reason) == (State.WARNING, "ClusterNotAccessible")
        assert "kcp" not in verdict.message
    assert "SyncResource" not in verdict_of(config(), [conflict]).message


def test_deletion_comes_first() -> None:
    refused = condition("Rendered", "NetworkTooWide", "too wide", generation=2)
    deleted = config(status={"conditions": [refused]}, deletionTimestamp=TIME)
    assert verdict_of(deleted, [made()]).state is State.DELETING


@pytest.mark.parametrize(("state", "shown"), [("Error", "Error"), ("Warning", "Warning"), ("Deleting", "Processing")])
def test_manager_without_annotation_reports_by_its_own_state(state: str, shown: str) -> None:
    ready = condition("Ready", "QuotaUsedUp", "no IP addresses left in the account")
    status = {"state": state, "observedGeneration": 2, "conditions": [ready]}
    expected = (State(shown), "QuotaUsedUp", "no IP addresses left in the account")
    assert short(verdict_of(config(status=status), [made(None)])) == expected
    assert short(verdict_of(config(status=status), [])) == expected


def test_fields_of_the_module_manager_are_bounded_and_cannot_replace_ours() -> None:
    given_fields = {"state": "Ready", "conditions": [], "observedGeneration": 99, "vpcs": {"a": "10.0.0.0/8"}}
    assert module_fields_of(config(status={"moduleStatus": given_fields})) == {"vpcs": {"a": "10.0.0.0/8"}}
    large = {"text": "x" * MAX_STATUS_BYTES}
    deep = msgspec.json.decode(b'{"a":' * 99 + b"1" + b"}" * 99)
    for fields in (large, deep):
        assert module_fields_of(config(status={"moduleStatus": fields})) == {}


def owner(uid: str = "uid-of-demo-cloud-resources") -> dict[str, str]:
    return {
        "apiVersion": "operator.kyma-project.io/v1alpha1",
        "kind": "ModuleConfig",
        "name": "demo-cloud-resources",
        "uid": uid,
    }


def test_sync_resource_belongs_to_its_owner_or_else_to_its_name() -> None:
    assert belongs_to(config(), made())
    assert belongs_to(config(), made(name="other", ownerReferences=[owner()]))
    assert not belongs_to(config(), made(ownerReferences=[owner("of-an-earlier-one")]))
    assert not belongs_to(config(), builders.sync_resource("other"))
    assert config_of(made(name="other", ownerReferences=[owner()])) == config_of(made()) == "demo-cloud-resources"


def test_sync_resource_of_another_module_says_nothing() -> None:
    """A module team may write the owner reference of another module's ModuleConfig."""
    foreign = builders.sync_resource(module="other", ownerReferences=[owner()])
    assert not belongs_to(config(), foreign)


@given(
    annotation=st.none() | st.integers(0, 4),
    observed=st.none() | st.integers(0, 4),
    state=st.sampled_from(State),
    applied=st.none() | st.integers(3, 4),
    applied_state=st.sampled_from(State),
)
def test_ready_means_that_the_current_text_is_applied(
    annotation: int | None, observed: int | None, state: State, applied: int | None, applied_state: State
) -> None:
    """Whatever was written by whom and when."""
    reported = {"state": state.value} | ({"observedGeneration": observed} if observed is not None else {})
    status = {"state": applied_state.value} | ({"observedGeneration": applied} if applied is not None else {})
    verdict = verdict_of(config(status=reported), [made(annotation, status=status)])
    if verdict.state is State.READY:
        assert (applied, applied_state) == (4, State.READY)
        assert (annotation or 0) >= 2 or (observed, state) == (2, State.READY)
    assert verdict.is_settled == (verdict.state is not State.PROCESSING)
