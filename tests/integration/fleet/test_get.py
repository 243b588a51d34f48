"""`klm get` against a real API server, by somebody with the ClusterRole `klm-viewer` alone."""

import asyncio
import re
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kube_runtime import Client
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma
from tests.klm import KLM, run_klm

KCP = names.KCP_NAMESPACE
REGION = "eu-fleet-1"
HERE = {names.REGION: REGION}
HOSTILE = "\x1b[2J[red]refused\x1b[0m"


def module(name: str, state: str = "Ready", **more: Any) -> dict[str, Any]:
    return {"name": name, "state": state, "version": "1.0.0", "channel": "regular", **more}


@pytest_asyncio.fixture
async def fleet(control_plane: Client) -> AsyncIterator[Client]:
    """Three Kymas in a region of their own."""
    await put_kyma(control_plane, "fleet-good", {"state": "Ready", "modules": [module("keda")]}, labels=HERE)
    broken = [module("keda", "Error", message=HOSTILE), module("istio", version="2.0.0")]
    await put_kyma(control_plane, "fleet-bad", {"state": "Error", "modules": broken}, labels=HERE)
    paused = {names.SKIP_RECONCILIATION: "true"} | HERE
    await put_kyma(control_plane, "fleet-paused", {"state": "Warning"}, labels=paused)
    yield control_plane
    for name in ("fleet-good", "fleet-bad", "fleet-paused"):
        await control_plane.delete(KYMAS, name, KCP)


def leading_nowhere(kubeconfig: Path, folder: Path) -> Path:
    """Return a kubeconfig whose server does not answer."""
    file = folder / "unreachable"
    file.write_text(re.sub(r"https://127.0.0.1:\d+", "https://127.0.0.1:1", kubeconfig.read_text()))
    return file


async def test_lists_and_filters(fleet: Client, viewer: Klm) -> None:
    listed = await viewer("get", "kymas", "--region", REGION)
    assert (listed.code, listed.errors) == (0, "")
    assert [line.split()[:3] for line in listed.lines] == [
        ["NAME", "STATE", "MODULES"],
        ["fleet-bad", "Error", "1/2"],
        ["fleet-good", "Ready", "1/1"],
        ["fleet-paused", "Warning", "0/0"],
    ]
    of_istio = await viewer("get", "kymas", "--region", REGION, "--module", "istio", "-o", "name")
    assert of_istio.text == "kyma.operator.kyma-project.io/fleet-bad\n"
    paused = await viewer("get", "kymas", "--region", REGION, "--paused")
    assert [line.split()[0] for line in paused.lines[1:]] == ["fleet-paused"]
    modules = await viewer("get", "modules", "keda", "--region", REGION, "--state", "error")
    assert modules.lines[1:] == ["fleet-bad  keda    Error  1.0.0    regular  [red]refused"]


async def test_reasons_select(fleet: Client, viewer: Klm) -> None:
    ready = builders.condition("Ready", "ModuleError", "refused", "False", at="2026-11-22T12:00:00Z")
    await put_kyma(fleet, "fleet-bad", {"state": "Error", "conditions": [ready]}, labels=HERE)
    found = await viewer("get", "kymas", "--region", REGION, "--reason", "ModuleError", "-o", "name")
    assert found.text == "kyma.operator.kyma-project.io/fleet-bad\n"
    refused = await viewer("get", "releases", "--reason", "ModuleError")
    assert (refused.code, "--reason does not select releases" in refused.errors) == (2, True)


@pytest.mark.parametrize(
    "asked", [("modules", "kedda"), ("kymas", "--module", "kedda"), ("modules", "kedda", "-o", "json")]
)
async def test_close_name_of_a_module_is_suggested(fleet: Client, viewer: Klm, asked: tuple[str, ...]) -> None:
    nothing = await viewer("get", *asked, "--region", REGION)
    assert f"no {asked[0]} match; did you mean the module keda?" in nothing.errors


async def test_version_of_klm_is_printed_without_a_control_plane(kcp: Path, tmp_path: Path) -> None:
    for kubeconfig in (leading_nowhere(kcp, tmp_path), tmp_path / "missing"):
        shown = await run_klm(kubeconfig, "version")
        assert (shown.code, shown.lines[0].split()) == (2, ["klm", version("kyma-fleet")])
        assert shown.errors.count("\n") == 1
        document = msgspec.json.decode((await run_klm(kubeconfig, "version", "-o", "json")).text)
        assert document["klm"] == version("kyma-fleet")


async def test_one_kyma_as_a_document(fleet: Client, viewer: Klm) -> None:
    document = msgspec.json.decode((await viewer("get", "kyma", "fleet-bad", "-o", "json")).text)
    assert document["status"]["modules"][0]["message"] == HOSTILE
    assert "managedFields" not in document["metadata"]


async def test_name_selects_together_with_labels(fleet: Client, viewer: Klm) -> None:
    named = ("get", "kymas", "fleet-good", "-o", "name", "-l")
    other = await viewer(*named, f"{names.REGION}=elsewhere")
    assert (other.code, other.text, other.errors) == (0, "", "klm: no kymas match\n")
    assert (await viewer(*named, f"{names.REGION}={REGION}")).text == "kyma.operator.kyma-project.io/fleet-good\n"


async def test_errors_are_one_line_with_what_to_do(fleet: Client, viewer: Klm, kcp: Path, tmp_path: Path) -> None:
    missing = await viewer("get", "kymas", "nobody")
    assert (missing.code, missing.text) == (2, "")
    assert missing.errors == (
        'klm: kymas.operator.kyma-project.io "nobody" not found (404 NotFound); klm get lists what there is\n'
    )
    nothing = await viewer("get", "kymas", "--region", "nowhere")
    assert (nothing.code, nothing.text, nothing.errors) == (0, "", "klm: no kymas match\n")
    refused = await run_klm(leading_nowhere(kcp, tmp_path), "get", "kymas")
    assert refused.code == 2
    assert refused.errors.count("\n") == 1
    assert "choose another kubeconfig" in refused.errors


async def test_changes_are_followed(fleet: Client, kcp: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        KLM, "get", "kymas", "--region", REGION, "--watch", "--kubeconfig", kcp, stdout=asyncio.subprocess.PIPE
    )
    try:
        assert process.stdout is not None
        async with asyncio.timeout(60):
            for _ in range(4):
                await process.stdout.readline()
            await put_kyma(fleet, "fleet-good", {"state": "Warning"}, labels=HERE)
            while b"Warning" not in (line := await process.stdout.readline()) or b"fleet-good" not in line:
                assert line
    finally:
        process.terminate()
        await process.wait()
