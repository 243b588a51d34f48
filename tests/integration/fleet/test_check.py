"""`klm check` and `klm version` against a real API server."""

from pathlib import Path

from kube_runtime import Client
from tests.integration.fleet.conftest import Klm
from tests.klm import run_klm


async def test_installation_without_lifecycle_manager_and_its_policy(control_plane: Client, viewer: Klm) -> None:
    result = await viewer("check")
    assert result.code == 1, result.errors
    marks = {line[2:15].strip(): line[0] for line in result.lines if not line.startswith(" ")}
    assert marks["API server"] == marks["clocks"] == marks["rights"] == marks["CRDs"] == "✓"
    assert marks["module policy"] == marks["replicas"] == "✗"
    assert marks["certificates"] == "·"
    assert "no replica of Lifecycle Manager has a Lease" in result.text
    assert "next:  start Lifecycle Manager" in result.text


async def test_cluster_before_an_installation(control_plane: Client, viewer: Klm, kcp: Path) -> None:
    administrator = await run_klm(kcp, "check", "--pre")
    assert (administrator.code, administrator.text.count("✓")) == (0, 4)
    refused = await viewer("check", "--pre")
    assert refused.code == 1
    assert "you may not create" in refused.text


async def test_versions(control_plane: Client, viewer: Klm) -> None:
    result = await viewer("version")
    assert result.code == 0
    assert [line.split("  ")[0] for line in result.lines] == ["klm", "Lifecycle Manager", "API server"]
    assert result.lines[2].split()[-1].startswith("v1.")
