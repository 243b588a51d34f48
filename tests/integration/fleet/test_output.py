"""Every command that prints does so in every format, of a control plane on a real API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from typer.testing import CliRunner

from kube_runtime import Client, load_documents
from lifecycle_manager.cli import app
from lifecycle_manager.contract.resources import KYMAS, MODULE_ROLLOUTS
from lifecycle_manager_api import names
from tests import builders
from tests.integration.fleet.conftest import put_kyma, written

KCP = names.KCP_NAMESPACE
KYMA = "kyma.operator.kyma-project.io/printed"
ROLLOUT = "modulerollout.operator.kyma-project.io/printing-regular-1"
COMMANDS = {
    ("get", "kymas"): KYMA,
    ("status",): KYMA,
    ("explain", "printed"): KYMA,
    ("trace", "printed"): KYMA,
    ("check",): "check/replicas",
    ("version",): "deployment.apps/lifecycle-manager",
    ("rollout", "list"): ROLLOUT,
    ("rollout", "status", "printing"): ROLLOUT,
    ("preview", "printing", "2.0.0"): KYMA,
    ("adopt", "--check"): "",
}


@pytest_asyncio.fixture
async def fleet(control_plane: Client) -> AsyncIterator[None]:
    """A Kyma in state Error with a module, a release of it, and a rollout."""
    module = {"name": "printing", "state": "Ready", "version": "1.0.0", "channel": "regular"}
    conditions = [builders.condition("Ready", "ModuleError", "printing has failed", "False")]
    status = {"state": "Error", "modules": [module], "conditions": conditions, "observedGeneration": 1}
    await put_kyma(control_plane, "printed", status)
    spec = {
        "moduleName": "printing",
        "channel": "regular",
        "version": "1.0.0",
        "revision": 1,
        "strategy": {"waves": [{"name": "all", "kymaSelector": {}}]},
    }
    templates = [builders.template("printing", version) for version in ("1.0.0", "2.0.0")]
    async with written(control_plane, *templates, builders.release("printing", regular="1.0.0")):
        await control_plane.apply(MODULE_ROLLOUTS, "printing-regular-1", {"spec": spec}, KCP, field_manager="test")
        yield
        await control_plane.delete(MODULE_ROLLOUTS, "printing-regular-1", KCP)
    await control_plane.delete(KYMAS, "printed", KCP)


async def printed(kcp: Path, *arguments: str) -> str:
    """Run a command in this process, and return what it has written to stdout."""
    result = await asyncio.to_thread(CliRunner().invoke, app, [*arguments, "--kubeconfig", str(kcp)])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    assert result.exit_code in (0, 1), result.output
    return result.stdout


@pytest.mark.usefixtures("fleet")
@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
async def test_output_in_every_format(kcp: Path, command: tuple[str, ...]) -> None:
    as_json = json.loads(await printed(kcp, *command, "-o", "json"))
    as_yaml = next(load_documents(await printed(kcp, *command, "-o", "yaml")))
    assert as_json["kind"] == ("List" if command[0] == "get" else as_yaml["kind"])
    named = (await printed(kcp, *command, "-o", "name")).splitlines()
    assert COMMANDS[command] in named or not COMMANDS[command]
    table = await printed(kcp, *command)
    assert table
    assert "{" not in table
    assert len(await printed(kcp, *command, "-o", "wide")) >= len(table) - 5  # ages in it may have changed
