"""`klm check` and `klm version` against a real API server."""

from pathlib import Path

from kube_runtime import Client
from kyma_fleet.checking.command import BINDINGS, POLICIES
from kyma_fleet.identities import create_identity
from kyma_local.private_files import write_private
from lifecycle_manager_api import names
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION
from tests.integration.fleet.conftest import Klm
from tests.klm import run_klm


async def test_installation_without_lifecycle_manager_and_its_policy(control_plane: Client, viewer: Klm) -> None:
    for resource in (BINDINGS, POLICIES):
        await control_plane.delete(resource, MODULE_AUTHORIZATION)
    result = await viewer("check")
    assert result.code == 1, result.errors
    marks = {line[2:15].strip(): line[0] for line in result.lines if not line.startswith(" ")}
    assert marks["API server"] == marks["clocks"] == marks["rights"] == marks["CRDs"] == "✓"
    assert marks["module policy"] == marks["replicas"] == "✗"
    assert marks["certificates"] == "·"
    assert "no replica of Lifecycle Manager has a Lease" in result.text
    assert "next:  start Lifecycle Manager" in result.text


async def test_what_may_not_be_read_is_said_and_all_else_is_checked(
    control_plane: Client, kcp: Path, tmp_path: Path
) -> None:
    nobody = await create_identity(control_plane, kcp, name="nobody", namespace=names.KCP_NAMESPACE, roles=[])
    result = await run_klm(write_private(tmp_path / "nobody", nobody), "check")
    checked = {line[2:15].strip(): line for line in result.lines if not line.startswith(" ")}
    for title in ("webhooks", "Watchers", "certificates", "replicas", "clusters"):
        assert checked[title].startswith("·")
        assert "not checked" in checked[title]
    assert (result.code, result.errors) == (1, "")


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
