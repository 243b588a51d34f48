"""A manager without the SDK: the Go example is built and run."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import Client, parse_objects
from kyma_module_manager import module_manager
from kyma_module_manager.testing import ManagerHarness
from kyma_module_manager.testing.plugin import ControlPlane
from lifecycle_manager_api import ModuleConfig, State

SOURCE = Path(__file__).parents[3] / "libraries" / "module_manager" / "examples" / "go"


@module_manager("greeting", crd=dict)
def greeting(config: dict[str, Any]) -> list[dict[str, Any]]:
    """Gives the harness the name of the module; the manager is the program in Go."""
    return []


@pytest.fixture
def program(go_build: Callable[[Path], Path]) -> Path:
    """The Go example. A fixture, since the first build takes minutes and the time of tests is limited."""
    return go_build(SOURCE)


async def test_manager_in_go_writes_creations_and_changes_and_respects_deletions(
    control_plane: ControlPlane, program: Path
) -> None:
    async with (
        await Client.from_kubeconfig(control_plane.admin_kubeconfig) as client,
        ManagerHarness.open(client, greeting, "kyma-go") as harness,
        _running(program, control_plane.manager_kubeconfig),
    ):
        config = await harness.write_module_cr("spec: {text: hello}")
        written = await harness.sync_resource()
        await harness.write_module_cr("spec: {text: good morning}")
        changed = await harness.sync_resource(lambda each: "good morning" in each.spec.resource)
        await harness.report(State.READY)
        ready = await harness.module_config(lambda each: each.status.state == State.READY)
        await harness.write_module_cr("spec: [no object]")
        refused = await harness.module_config(lambda each: each.status.state == State.ERROR)
        unchanged = await harness.sync_resource()
        await harness.delete_module_cr()
        await harness.sync_resource_gone()

    (config_map,) = parse_objects(written.spec.resource)
    assert (config_map.kind, config_map.document["data"]) == ("ConfigMap", {"text": "hello"})
    assert written.metadata.labels == config.metadata.labels
    assert changed.metadata.owner_references[0].uid == config.metadata.uid
    assert unchanged.spec == changed.spec
    assert _conditions(ready) == {("Rendered", "True", "Rendered"), ("Ready", "True", "Applied")}
    assert _conditions(refused) == {("Rendered", "False", "InvalidModuleCR"), ("Ready", "False", "InvalidModuleCR")}
    assert refused.status.observed_generation == refused.metadata.generation


def _conditions(config: ModuleConfig) -> set[tuple[str, str, str]]:
    return {(each.type, each.status, each.reason) for each in config.status.conditions}


@asynccontextmanager
async def _running(program: Path, kubeconfig: Path) -> AsyncIterator[None]:
    process = await asyncio.create_subprocess_exec(str(program), f"--kubeconfig={kubeconfig}")
    try:
        yield
    finally:
        process.terminate()
        assert await process.wait() == 0
