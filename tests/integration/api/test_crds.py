"""The CRDs on a real API server: served versions, columns and descriptions."""

from typing import Any

import msgspec
import pytest

from kube_runtime import Client, NotFound, NotServed, Resource
from lifecycle_manager_api.crds import KINDS
from tests.integration.api.objects import COMPLETE, RESOURCES, in_namespace, read
from tests.kinds import CRDS
from tests.waiting import eventually


async def test_every_crd_is_established_under_all_its_names(served: Client) -> None:
    for kind in KINDS:
        crd = await served.get(CRDS, f"{kind.PLURAL}.{kind.GROUP}")
        conditions = {each["type"]: each["status"] for each in crd["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True", kind.KIND
        assert "NonStructuralSchema" not in conditions, kind.KIND


async def test_kinds_are_found_by_short_name_and_category(served: Client) -> None:
    async def discovered() -> dict[str, Any] | None:  # a moment after the API server serves them
        found: dict[str, Any] = {}
        for version in ("v1beta2", "v1alpha1"):
            try:
                answer = await served.raw("GET", f"/apis/operator.kyma-project.io/{version}")
            except (NotFound, NotServed):
                return None
            found |= {
                each["kind"]: each for each in msgspec.json.decode(answer)["resources"] if "/" not in each["name"]
            }
        return found if len(found) == len(KINDS) else None

    found = await eventually(discovered, within=60)

    assert {kind: each.get("shortNames", []) for kind, each in found.items()} == {
        "Kyma": [],
        "ModuleTemplate": ["mt"],
        "ModuleReleaseMeta": ["mrm"],
        "Manifest": ["mf"],
        "Watcher": ["kw"],
        "ModuleConfig": ["mc"],
        "SyncResource": ["sr"],
        "ModulePolicy": ["mpol"],
        "RolloutStrategy": ["rstrat"],
        "ModuleRollout": ["mro"],
    }
    assert found["Kyma"]["singularName"] == "kyma"
    assert all(each["categories"] == ["kyma-modules"] for each in found.values())


async def test_previous_version_is_not_served(served: Client) -> None:
    async def versions() -> bool:  # the API server publishes them a moment after it serves them
        answer = await served.raw("GET", "/apis/operator.kyma-project.io")
        return {each["version"] for each in msgspec.json.decode(answer)["versions"]} == {"v1beta2", "v1alpha1"}

    await eventually(versions, within=60)


async def test_every_field_has_a_description(served: Client) -> None:
    for version in ("v1beta2", "v1alpha1"):
        expected = {kind.KIND for kind in KINDS if version == kind.VERSION}

        async def published(version: str = version, expected: set[str] = expected) -> dict[str, Any] | None:
            try:
                answer = await served.raw("GET", f"/openapi/v3/apis/operator.kyma-project.io/{version}")
            except (NotFound, NotServed):
                return None
            schemas = msgspec.json.decode(answer)["components"]["schemas"]
            own = {name: each for name, each in schemas.items() if name.startswith("io.kyma-project.operator")}
            return own if expected <= {name.rpartition(".")[2] for name in own} else None

        for name, schema in (await eventually(published, within=60)).items():
            if not name.endswith("List"):
                assert not list(_unexplained(schema, name.rpartition(".")[2]))


@pytest.mark.parametrize("name", COMPLETE)
async def test_kubectl_get_shows_the_columns(served: Client, namespace: str, name: str) -> None:
    document = in_namespace(read(COMPLETE[name]), namespace)
    resource = RESOURCES[document["kind"]]
    made = await served.create(resource, document, field_manager="test", namespace=namespace)
    if "status" in document:
        await served.replace(
            resource,
            made["metadata"]["name"],
            made | {"status": document["status"]},
            namespace,
            field_manager="test",
            subresource="status",
        )

    shown = await _table(served, resource, namespace)

    assert list(shown) == ["Name", *_COLUMNS[document["kind"]]]
    for column, value in _SHOWN.get(name, {}).items():
        assert shown[column] == value


_COLUMNS = {
    "RolloutStrategy": ["Waves", "Age"],
    "ModuleRollout": ["Module", "Channel", "Version", "Phase", "Wave", "Updated", "Failed", "Clusters", "Age"],
    "Kyma": ["State", "Ready", "Reason", "Channel", "Age"],
    "ModuleTemplate": ["Module", "Version", "Channel", "Mandatory", "Age"],
    "ModuleReleaseMeta": ["Module", "Channels", "Mandatory", "Age"],
    "Manifest": ["State", "Ready", "Reason", "Version", "Age"],
    "Watcher": ["State", "Ready", "Reason", "Resource", "Field", "Age"],
    "ModuleConfig": ["Kyma", "Module", "State", "Synced", "Ready", "Reason", "Age"],
    "SyncResource": ["Kyma", "Module", "State", "Objects", "Ready", "Reason", "Age"],
    "ModulePolicy": ["Pod Security", "Namespaces", "KCP Namespace", "Age"],
}
_SHOWN: dict[str, dict[str, Any]] = {
    "kyma": {"State": "Warning", "Channel": "regular"},
    "module-template": {"Module": "telemetry", "Version": "1.2.0-rc", "Mandatory": True},
    "module-release-meta": {"Module": "telemetry", "Channels": "fast"},
    "mandatory-module-release-meta": {"Module": "warden", "Mandatory": "1.4.0-rc.1+build.5"},
    "sync-resource": {"Kyma": "complete", "State": "Error", "Objects": "0/1"},
    "module-policy": {"Pod Security": "restricted", "KCP Namespace": "module-telemetry"},
}


async def _table(client: Client, resource: Resource[Any], namespace: str) -> dict[str, Any]:
    """Return the only row that `kubectl get` shows, by its columns."""
    answer = await client.raw("GET", resource.path(namespace), accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    table = msgspec.json.decode(answer)
    columns = [column["name"] for column in table["columnDefinitions"]]
    return dict(zip(columns, table["rows"][0]["cells"], strict=True))


def _unexplained(schema: dict[str, Any], path: str) -> Any:
    for name, field in schema.get("properties", {}).items():
        if name == "metadata" and "." not in path:
            continue
        if not field.get("description") and "allOf" not in field:
            yield f"{path}.{name}"
        yield from _unexplained(field, f"{path}.{name}")
    if "items" in schema:
        yield from _unexplained(schema["items"], f"{path}[]")


@pytest.mark.parametrize("name", ["module-config", "sync-resource"])
async def test_object_that_is_not_reconciled_has_ready_unknown(served: Client, namespace: str, name: str) -> None:
    document = in_namespace(read(COMPLETE[name]), namespace)
    resource, named = RESOURCES[document["kind"]], document["metadata"]["name"]
    created = await served.create(resource, document, namespace, field_manager="test")
    found = await served.get(resource, named, namespace)
    (listed,) = (await served.list(resource, namespace)).items
    for unseen in (created, found, listed):
        (condition,) = unseen["status"]["conditions"]
        assert (condition["type"], condition["status"], condition["reason"]) == ("Ready", "Unknown", "Pending")

    ready = {**condition, "status": "True", "reason": "AllWell", "message": ""}
    document_with_status = {"apiVersion": document["apiVersion"], "kind": document["kind"], "metadata": {"name": named}}
    document_with_status["status"] = {"state": "Ready", "conditions": [ready]}
    written = await served.apply(
        resource, named, document_with_status, namespace, field_manager="lifecycle-manager", subresource="status"
    )
    assert [each["reason"] for each in written["status"]["conditions"]] == ["AllWell"]
