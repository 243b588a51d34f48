"""Who has the ClusterRole `klm-operator` changes what the commands of klm change, and nothing that is installed."""

from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, Forbidden, KubeError, Resource, parse_objects
from lifecycle_manager.contract.resources import FIELD_MANAGER, KYMAS, MANIFESTS, MODULE_CONFIGS, MODULE_ROLLOUTS
from lifecycle_manager_api import names
from tests import builders
from tests.integration.module_rights.identities import KCP, identity
from tests.waiting import eventually

REFUSED = "may change only what klm changes"
NAME = "steered"
PAUSE = {
    "metadata": {
        "labels": {names.SKIP_RECONCILIATION: "true"},
        "annotations": {f"{names.GROUP}/paused-by": "me", names.PAUSED_AT: "now", names.RECONCILE_AT: "now"},
    }
}
METADATA: dict[str, dict[str, Any]] = {
    "label of the cluster": {"labels": {names.KYMA_NAME: "another"}},
    "label of the module": {"labels": {names.MODULE_NAME: None}},
    "new label": {"labels": {names.RUNTIME_ID: "another"}},
    "annotation": {"annotations": {names.REVOKED_BEFORE: "2030-01-01T00:00:00Z"}},
    "removed annotation": {"annotations": {names.FQDN: None}},
    "name that begins like a mark": {"labels": {f"{names.SKIP_RECONCILIATION}-x": "true"}},
    "finalizer": {"finalizers": []},
    "owner": {"ownerReferences": [{"apiVersion": "v1", "kind": "Secret", "name": "x", "uid": "x"}]},
}
SOURCES: dict[str, dict[str, Any]] = {
    "layer": {"install": {"source": {"ref": "sha256:" + "0" * 64}}},
    "kind of the source": {"install": {"source": {"type": "kustomize"}}},
    "Module CR": {"resource": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}}},
    "version": {"version": "6.6.6"},
}
RESOURCES: tuple[Resource[Any], ...] = (KYMAS, MANIFESTS, MODULE_ROLLOUTS)


@pytest_asyncio.fixture
async def operator(admin: Client, kcp: Path, tmp_path: Path) -> AsyncIterator[Client]:
    async with _with_role(admin, kcp, tmp_path, "klm-operator") as client:
        yield client


def _with_role(admin: Client, kcp: Path, folder: Path, name: str) -> Any:
    text = files("kyma_fleet").joinpath("rbac.yaml").read_text()
    roles = [dict(each.document) for each in parse_objects(text) if each.name == name]
    return identity(admin, kcp, folder, name, roles)


@pytest_asyncio.fixture(autouse=True)
async def steered(admin: Client, operator: Client) -> AsyncIterator[None]:
    """Create what an operator may steer, and wait until the policy is in force: a moment after it was written."""
    metadata: dict[str, Any] = {
        "name": NAME,
        "finalizers": ["test/kept"],
        "annotations": {names.FQDN: "kyma-project.io/module/keda"},
    }
    metadata |= {"labels": {names.KYMA_NAME: NAME, names.MODULE_NAME: "keda"}}
    manifest = {**builders.as_written(builders.manifest("keda", kyma=NAME)), "metadata": metadata}
    kyma = {"metadata": metadata, "spec": {"channel": "regular"}}
    rollout = {"metadata": metadata, "spec": _rollout()}
    for resource, document in zip(RESOURCES, (kyma, manifest, rollout), strict=True):
        await admin.create(resource, document, KCP, field_manager="test")

    async def in_force() -> bool:
        try:
            await operator.merge_patch(MANIFESTS, NAME, {"spec": {"version": "probe"}}, KCP, dry_run=True)
        except Forbidden as error:
            return REFUSED in str(error)
        return False

    await eventually(in_force)
    yield
    for resource in RESOURCES:
        await admin.merge_patch(resource, NAME, {"metadata": {"finalizers": []}}, KCP)
        await admin.delete(resource, NAME, KCP)


@pytest.mark.parametrize("change", SOURCES.values(), ids=SOURCES)
async def test_operator_does_not_change_what_a_manifest_installs(operator: Client, change: dict[str, Any]) -> None:
    for also in ({}, PAUSE):
        with pytest.raises(Forbidden, match=REFUSED):
            await operator.merge_patch(MANIFESTS, NAME, {**also, "spec": change}, KCP)


async def test_operator_does_not_apply_a_manifest_of_its_own(operator: Client) -> None:
    manifest = builders.as_written(builders.manifest("evil", kyma=NAME))
    with pytest.raises(Forbidden):
        await operator.apply(MANIFESTS, "steered-evil", manifest, KCP, field_manager="klm")
    manifest["metadata"] |= {"name": NAME}
    with pytest.raises(Forbidden, match=REFUSED):
        await operator.apply(MANIFESTS, NAME, manifest, KCP, field_manager="klm", force=True)


@pytest.mark.parametrize("resource", RESOURCES, ids=lambda each: each.kind)
@pytest.mark.parametrize("change", METADATA.values(), ids=METADATA)
async def test_operator_changes_no_other_metadata(
    operator: Client, resource: Resource[Any], change: dict[str, Any]
) -> None:
    with pytest.raises(Forbidden, match=REFUSED):
        await operator.merge_patch(resource, NAME, {"metadata": change}, KCP)


@pytest.mark.parametrize("change", [{"channel": "fast"}, {"modules": [{"name": "evil", "channel": "fast"}]}])
async def test_operator_does_not_change_the_modules_of_a_kyma(operator: Client, change: dict[str, Any]) -> None:
    with pytest.raises(Forbidden, match=REFUSED):
        await operator.merge_patch(KYMAS, NAME, {"spec": change}, KCP)


@pytest.mark.parametrize("change", [{"formerVersion": "0.0.1"}, {"revision": 7}, {"undoes": "another"}])
async def test_operator_steers_a_rollout_and_does_not_redirect_it(operator: Client, change: dict[str, Any]) -> None:
    with pytest.raises(Forbidden, match=REFUSED):
        await operator.merge_patch(MODULE_ROLLOUTS, NAME, {"spec": change}, KCP)
    steered = {"paused": True, "halted": True, "acceptedFailures": 3, "atOnce": True, "approvals": [{"wave": "all"}]}
    await operator.merge_patch(MODULE_ROLLOUTS, NAME, {"spec": steered}, KCP)


async def test_operator_creates_no_rollout_but_an_undo(operator: Client) -> None:
    new = {"metadata": {"name": "steered-2"}, "spec": _rollout(revision=2)}
    with pytest.raises(Forbidden, match=REFUSED):
        await operator.create(MODULE_ROLLOUTS, new, KCP, field_manager="klm")
    new["spec"]["undoes"] = NAME
    await operator.create(MODULE_ROLLOUTS, new, KCP, field_manager="klm", dry_run=True)


@pytest.mark.parametrize("resource", [KYMAS, MANIFESTS], ids=lambda each: each.kind)
async def test_operator_sets_and_removes_marks(operator: Client, resource: Resource[Any]) -> None:
    await operator.merge_patch(resource, NAME, PAUSE, KCP)
    removed = {kind: dict.fromkeys(marks) for kind, marks in PAUSE["metadata"].items()}
    await operator.merge_patch(resource, NAME, {"metadata": removed}, KCP)


async def test_lifecycle_manager_writes_all_of_them(lifecycle_manager: Client) -> None:
    change = {"labels": {names.SYNC: "true"}, "finalizers": ["test/kept", names.KYMA_FINALIZER]}
    await lifecycle_manager.merge_patch(KYMAS, NAME, {"metadata": change}, KCP)
    await lifecycle_manager.merge_patch(MANIFESTS, NAME, {"spec": {"version": "1.1.0"}}, KCP)
    new = {"metadata": {"name": "steered-2"}, "spec": _rollout(revision=2)}
    await lifecycle_manager.create(MODULE_ROLLOUTS, new, KCP, field_manager=FIELD_MANAGER, dry_run=True)


async def test_registrar_writes_kymas(admin: Client, kcp: Path, tmp_path: Path) -> None:
    async with _with_role(admin, kcp, tmp_path, "klm-registrar") as registrar:
        change = {"metadata": {"labels": {names.REGION: "eu10"}}}
        await registrar.merge_patch(KYMAS, NAME, change, KCP)


async def test_patch_of_a_module_config_needs_the_verb_manage(admin: Client, kcp: Path, tmp_path: Path) -> None:
    rule = {"apiGroups": [names.GROUP], "resources": ["moduleconfigs"], "verbs": ["create", "patch", "delete"]}
    role: dict[str, Any] = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role"}
    role |= {"metadata": {"name": "configs", "namespace": KCP}, "rules": [rule]}
    document = {"metadata": {"name": "config"}, "spec": {"kyma": "demo", "module": "istio", "resource": ""}}
    async with identity(admin, kcp, tmp_path, "configs", [role]) as writer:
        with pytest.raises(KubeError, match="may not write for the module istio"):
            await writer.create(MODULE_CONFIGS, document, KCP, field_manager="test")


def _rollout(revision: int = 1) -> dict[str, Any]:
    strategy = {"waves": [{"name": "all", "kymaSelector": {}}]}
    named = {"moduleName": "keda", "channel": "regular", "version": "2.0.0", "formerVersion": "1.0.0"}
    return {**named, "revision": revision, "strategy": strategy}
