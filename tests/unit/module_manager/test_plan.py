"""The SyncResource and the status that a ModuleConfig gets."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from kyma_module_manager import PermanentError, Rendering, RenderingFailed
from kyma_module_manager.plan import desired_status, status_document, sync_resource_document
from lifecycle_manager_api import ModuleConfig, State, SyncResource, names
from tests.unit.module_manager.configs import NOW, make_config, make_sync_resource

TEXT = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: thing\n"
RENDERING = Rendering(({"kind": "ConfigMap"},), TEXT)
READY = {
    "state": "Ready",
    "observedGeneration": 1,
    "conditions": [
        {"type": "Ready", "status": "True", "reason": "Ready", "message": "1 object is ready",
         "lastTransitionTime": "2026-11-01T11:00:00Z"}
    ],
}  # fmt: skip


def with_status(config: ModuleConfig, document: dict[str, Any] | None) -> ModuleConfig:
    assert document is not None
    status = msgspec.convert(document["status"], type(config.status))
    return msgspec.structs.replace(config, status=status)


def test_new_module_config_gets_a_sync_resource_with_an_owner_reference() -> None:
    document = sync_resource_document(make_config(), None, RENDERING)

    assert document is not None
    metadata = document["metadata"]
    assert (metadata["namespace"], metadata["name"]) == ("kcp-system", "kyma-one-cloud-resources")
    assert document["spec"] == {"kyma": "kyma-one", "module": "cloud-resources", "resource": TEXT}
    assert metadata["labels"] == make_config().metadata.labels
    (owner,) = metadata["ownerReferences"]
    assert (owner["kind"], owner["uid"]) == ("ModuleConfig", "config-uid")
    assert owner["controller"] is True
    assert owner["blockOwnerDeletion"] is True


def test_trace_annotations_are_copied_and_the_generation_is_named() -> None:
    config = make_config(annotations={**make_config().metadata.annotations, "somebody": "else"})

    document = sync_resource_document(config, None, RENDERING)

    assert document is not None
    assert set(document["metadata"]["annotations"]) == {
        "operator.kyma-project.io/traceparent",
        "operator.kyma-project.io/observed-at",
        "operator.kyma-project.io/module-config-generation",
    }
    assert document["metadata"]["annotations"][names.MODULE_CONFIG_GENERATION] == str(config.metadata.generation)


@pytest.mark.parametrize(
    ("config", "existing", "is_written"),
    [
        (make_config(), make_sync_resource(TEXT), False),
        (make_config(), make_sync_resource("other"), True),
        (make_config(), make_sync_resource(TEXT, owner="a ModuleConfig that was deleted"), True),
        (make_config(), make_sync_resource(TEXT, labels={}), True),
        (make_config(deleting=True), None, False),
        (make_config(), make_sync_resource("old", deleting=True), False),
    ],
)
def test_sync_resource_is_written_where_it_differs_and_neither_is_being_deleted(
    config: ModuleConfig, existing: SyncResource | None, *, is_written: bool
) -> None:
    assert (sync_resource_document(config, existing, RENDERING) is not None) is is_written


def test_module_config_is_processing_until_its_generation_is_applied() -> None:
    desired = desired_status(make_config(), make_sync_resource(TEXT, generation=2, status=READY), RENDERING)

    assert desired.state == State.PROCESSING
    assert desired.ready == ("Ready", "False", "NotApplied", "generation 2 is not applied yet")


def test_module_config_is_ready_when_its_sync_resource_is() -> None:
    desired = desired_status(make_config(), make_sync_resource(TEXT, status=READY), RENDERING)

    assert desired.state == State.READY
    assert desired.ready == ("Ready", "True", "Applied", "1 object is ready")
    assert desired.rendered == ("Rendered", "True", "Rendered", "1 object")


def test_error_of_the_sync_resource_is_copied() -> None:
    status = {
        "state": "Error",
        "observedGeneration": 1,
        "conditions": [{"type": "Ready", "status": "False", "reason": "Refused", "message": "document 3: no"}],
    }

    desired = desired_status(make_config(), make_sync_resource(TEXT, status=status), RENDERING)

    assert desired.state == State.ERROR
    assert desired.ready == ("Ready", "False", "Refused", "document 3: no")


def test_failed_function_is_an_error_even_while_the_old_objects_are_ready() -> None:
    desired = desired_status(make_config(), make_sync_resource(TEXT, status=READY), RenderingFailed("KeyError: 'a'"))

    assert desired.state == State.ERROR
    assert desired.rendered == ("Rendered", "False", "RenderingFailed", "KeyError: 'a'")
    assert desired.ready == ("Ready", "False", "RenderingFailed", "KeyError: 'a'")


def test_long_message_is_shortened() -> None:
    desired = desired_status(make_config(), None, PermanentError("x" * 40_000))

    assert len(desired.rendered[3]) == 1024


def test_module_config_that_is_being_deleted_is_deleting() -> None:
    desired = desired_status(make_config(deleting=True), make_sync_resource(TEXT, status=READY), None)

    assert desired.state == State.DELETING
    assert desired.ready[:3] == ("Ready", "False", "Deleting")


def test_unchanged_status_is_not_written_again() -> None:
    desired = desired_status(make_config(), make_sync_resource(TEXT, status=READY), RENDERING)
    written = with_status(make_config(), status_document(make_config(), desired, NOW))

    assert status_document(written, desired, NOW + timedelta(hours=1)) is None


def test_new_generation_is_observed_although_nothing_else_changed() -> None:
    desired = desired_status(make_config(), make_sync_resource(TEXT, status=READY), RENDERING)
    status = status_document(make_config(), desired, NOW)
    later = with_status(make_config(generation=2), status)

    document = status_document(later, desired, NOW + timedelta(hours=1))

    assert document is not None
    assert document["status"]["observedGeneration"] == 2
    times = {condition["lastTransitionTime"] for condition in document["status"]["conditions"]}
    assert times == {"2026-11-01T12:00:00Z"}  # no condition changed its status


def test_transition_time_changes_with_the_status() -> None:
    ready = desired_status(make_config(), make_sync_resource(TEXT, status=READY), RENDERING)
    before = with_status(make_config(), status_document(make_config(), ready, NOW))
    failed = desired_status(make_config(), None, RenderingFailed("no"))

    document = status_document(before, failed, NOW + timedelta(hours=1))

    assert document is not None
    assert {each["lastTransitionTime"] for each in document["status"]["conditions"]} == {"2026-11-01T13:00:00Z"}
