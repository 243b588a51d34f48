"""`klm bundle` on a real API server in which secrets are planted in every kind."""

import base64
import json
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, Resource, dump_yaml, load_documents
from lifecycle_manager.contract.resources import KYMAS, MODULE_CONFIGS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma
from tests.kinds import DEPLOYMENTS, EVENTS
from tests.klm import Output, run_klm

KCP = names.KCP_NAMESPACE
PLANTED = "pl4nted-s3cret-of-somebody"
ENCODED = base64.b64encode(PLANTED.encode()).decode()
LABELS = {names.KYMA_NAME: "bundled", names.MODULE_NAME: "printing"}


def planted() -> list[tuple[Resource[Any], str, dict[str, Any]]]:
    secret = dump_yaml({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"a": ENCODED}})
    part = builders.as_written(builders.sync_resource("bundled", text=secret, kyma="bundled", module="printing"))
    config = builders.as_written(builders.module_config("bundled", kyma="bundled", module="printing"))
    config["spec"]["resource"] = json.dumps({"spec": {"password": PLANTED}})
    for each in (part, config):
        each["metadata"]["labels"] = LABELS
    container = {
        "name": "manager",
        "image": "example.com/lm:1",
        "args": [f"--api-token={PLANTED}"],
        "env": [{"name": "A", "value": PLANTED}],
    }
    app = {"app.kubernetes.io/name": names.LIFECYCLE_MANAGER}
    template = {"metadata": {"labels": app}, "spec": {"containers": [container]}}
    deployment = {"metadata": {"labels": app}, "spec": {"selector": {"matchLabels": app}, "template": template}}
    event = {
        "note": f"refused with Authorization: Bearer {PLANTED}",
        "type": "Warning",
        "reason": "ApplyFailed",
        "action": "Apply",
        "reportingController": "test",
        "reportingInstance": "test",
        "eventTime": "2026-11-22T10:00:00.000000Z",
        "regarding": {"kind": "Kyma", "name": "bundled", "namespace": KCP},
    }
    return [
        (SECRETS, "kubeconfig-bundled", {"metadata": {"labels": LABELS}, "data": {"config": ENCODED}}),
        (SYNC_RESOURCES, "bundled", part),
        (MODULE_CONFIGS, "bundled", config),
        (DEPLOYMENTS, "bundled", deployment),
        (EVENTS, "bundled", event),
    ]


@pytest_asyncio.fixture
async def fleet(control_plane: Client) -> AsyncIterator[None]:
    annotations = {
        "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"token": PLANTED}),
        f"{names.GROUP}/paused-reason": f"password={PLANTED}",
    }
    message = f"GET https://robot:{PLANTED}@registry.example.com: 401"
    status = {"state": "Error", "conditions": [builders.condition("Ready", "ModuleError", message, "False")]}
    await put_kyma(control_plane, "bundled", status, annotations=annotations)
    for resource, name, document in planted():
        await control_plane.apply(resource, name, document, KCP, field_manager="test")
    yield
    for resource, name, _ in planted():
        await control_plane.delete(resource, name, KCP)
    await control_plane.delete(KYMAS, "bundled", KCP)


def contents(file: Path) -> dict[str, str]:
    with tarfile.open(file) as tar:
        files = {each.name.removeprefix("klm-bundle/"): tar.extractfile(each) for each in tar}
        return {name: found.read().decode() for name, found in files.items() if found is not None}


def assert_without_secrets(found: dict[str, str], result: Output) -> None:
    for name, text in {**found, "stdout": result.text, "stderr": result.errors}.items():
        assert PLANTED not in text, name
        assert ENCODED not in text, name


@pytest.mark.usefixtures("fleet")
async def test_nothing_that_was_planted_is_in_the_archive(kcp: Path, tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    result = await run_klm(kcp, "bundle", "bundled", "--file", str(file), "-o", "json")
    assert (result.code, result.errors) == (0, "")
    found = contents(file)
    assert_without_secrets(found, result)
    kinds = ("kymas", "moduleconfigs", "syncresources", "deployments", "events")
    assert {f"resources/{each}.yaml" for each in kinds} <= found.keys()
    assert {"version.json", "check.json", "status.json", "explain.json", "index.json"} <= found.keys()
    (kyma,) = load_documents(found["resources/kymas.yaml"])
    assert kyma["status"]["conditions"][0]["reason"] == "ModuleError"
    assert json.loads(found["index.json"]) == json.loads(result.text)


@pytest.mark.usefixtures("fleet")
async def test_what_may_not_be_read_is_said(viewer: Klm, tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    result = await viewer("bundle", "--file", str(file))
    assert result.code == 0, result.errors
    assert_without_secrets(contents(file), result)
    assert "missing: pods: " in result.text
    again = await viewer("bundle", "--file", str(file))
    assert (again.code, again.text) == (2, "")
    assert "File exists; choose another with --file" in again.errors
