"""`klm diff` with a real API server, which is both the control plane and the user's cluster."""

import asyncio
import base64
from collections.abc import AsyncIterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client, dump_yaml, load_yaml
from kyma_fleet.problems import Problem
from kyma_fleet_page.clusters import Clusters
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, SECRETS, SYNC_RESOURCES
from lifecycle_manager_api import names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma
from tests.kinds import CONFIG_MAPS
from tests.klm import run_klm

KCP = names.KCP_NAMESPACE


def config_map(name: str, namespace: str, value: str) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"colour": value}}


def encoded(kubeconfig: Path) -> str:
    return base64.b64encode(kubeconfig.read_bytes()).decode()


@pytest_asyncio.fixture
async def wanted(control_plane: Client, kcp: Path, namespace: str) -> AsyncIterator[Client]:
    """A Kyma whose module wants a ConfigMap, with an access Secret that leads to the same server."""
    await put_kyma(control_plane, "compared", {"state": "Ready"})
    labels = {names.KYMA_NAME: "compared", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    access = {"config": encoded(kcp)}
    secret = {"metadata": {"name": "compared", "labels": labels}, "data": access}
    await control_plane.apply(SECRETS, "compared", secret, KCP, field_manager="test")
    text = dump_yaml(config_map("wanted", namespace, "blue"))
    part = builders.as_written(builders.sync_resource("compared-colours", text=text, kyma="compared", module="colours"))
    part["metadata"]["labels"] = {names.KYMA_NAME: "compared", names.MODULE_NAME: "colours"}
    await control_plane.apply(SYNC_RESOURCES, "compared-colours", part, KCP, field_manager="test")
    yield control_plane
    await control_plane.delete(SYNC_RESOURCES, "compared-colours", KCP)
    await control_plane.delete(SECRETS, "compared", KCP)
    await control_plane.delete(KYMAS, "compared", KCP)


async def test_drift_is_shown_and_is_the_exit_code(wanted: Client, kcp: Path, namespace: str) -> None:
    missing = await run_klm(kcp, "diff", "compared", "colours")
    assert missing.code == 1, missing.errors
    assert "is missing and would be created" in missing.text
    drifted = config_map("wanted", namespace, "red")
    await wanted.apply(CONFIG_MAPS, "wanted", drifted, namespace, field_manager="lifecycle-manager")
    result = await run_klm(kcp, "diff", "compared", "colours")
    assert result.code == 1
    assert "    -  colour: red" in result.lines
    assert "    +  colour: blue" in result.lines
    held = await wanted.get(CONFIG_MAPS, "wanted", namespace)
    assert held["data"] == {"colour": "red"}


async def test_page_compares_as_klm_diff_does(wanted: Client, namespace: str) -> None:
    async def may_list(*_: object) -> bool:
        return True

    caches: dict[str, Any] = dict.fromkeys(each.name for each in fields(Clusters))  # which a comparison does not need
    clusters = Clusters(**caches | {"kcp": wanted, "reading": asyncio.Semaphore(1), "sync_namespace": namespace})
    (missing,) = await clusters.difference("compared", "colours", may_list)
    assert (str(missing.object), missing.what) == (
        f"ConfigMap {namespace}/wanted (v1)",
        "is missing and would be created",
    )
    drifted = config_map("wanted", namespace, "red")
    await wanted.apply(CONFIG_MAPS, "wanted", drifted, namespace, field_manager="lifecycle-manager")
    (changed,) = await clusters.difference("compared", "colours", may_list)
    assert {"-  colour: red", "+  colour: blue"} < {*changed.lines}
    with pytest.raises(Problem, match="Kyma compared has no module other"):
        await clusters.difference("compared", "other", may_list)


async def test_without_the_role_it_says_which_one_is_needed(wanted: Client, viewer: Klm) -> None:
    refused = await viewer("diff", "compared", "colours")
    assert refused.code == 2
    assert "klm-skr-access" in refused.errors
    assert refused.errors.count("\n") == 1


async def test_module_without_objects_and_unreadable_manifest(wanted: Client, kcp: Path) -> None:
    await put_kyma(wanted, "compared", {"modules": [{"name": "other", "state": "Processing"}]})
    nothing = await run_klm(kcp, "diff", "compared", "other")
    assert "has no objects in the cluster of Kyma compared; klm explain compared says why" in nothing.errors
    manifest = builders.as_written(builders.manifest("keda", kyma="compared"))
    await wanted.apply(MANIFESTS, "compared-keda", manifest, KCP, field_manager="test")
    unreadable = await run_klm(kcp, "diff", "compared", "keda")
    assert (unreadable.code, "Manifest compared-keda: SourceInvalid" in unreadable.errors) == (2, True)
    await wanted.delete(MANIFESTS, "compared-keda", KCP)


def running_a_command(kubeconfig: Path, trace: Path) -> str:
    """Return a kubeconfig, encoded, that would leave a trace."""
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "touch", "args": [str(trace)]}
    config = load_yaml(kubeconfig.read_text())
    config["users"][0]["user"] = {"exec": {**plugin, "interactiveMode": "Never"}}
    return base64.b64encode(dump_yaml(config).encode()).decode()


def exists(file: Path) -> bool:
    return file.exists()


async def test_kubeconfig_of_an_access_secret_runs_no_command(wanted: Client, kcp: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    access = {"config": running_a_command(kcp, trace)}
    await wanted.merge_patch(SECRETS, "compared", {"data": access}, KCP, field_manager="test")
    refused = await run_klm(kcp, "diff", "compared", "colours")
    assert refused.code == 2
    assert "no access to the cluster of Kyma compared: Secret kcp-system/compared" in refused.errors
    assert not exists(trace)
