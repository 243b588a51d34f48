"""The takeover from the Lifecycle Manager in Go can be deleted: what goes with it, and that the rest works without."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGE = "extras/takeover"
GO_WITH_IT = (
    PACKAGE,
    "tests/takeover_from_go",
    "tests/unit/takeover",
    "tests/integration/takeover",
    "tests/chaos/takeover",
    "tests/structure/test_removable.py",
)
"""Folders and files that are deleted together."""
HIDDEN = """
import sys
from importlib import metadata

found = metadata.entry_points
metadata.entry_points = lambda **given: [each for each in found(**given) if not each.value.startswith("kyma_takeover")]
sys.modules["kyma_takeover"] = None  # every import of it fails
"""
COMPOSE = """
import asyncio
from kube_simulation import serve_simulation
from lifecycle_manager.app import lifecycle_manager
from lifecycle_manager.contract.former import Takeover, is_former, takeover
from lifecycle_manager.settings import Settings, options
from lifecycle_manager_api import names
from tests.clusters import simulated_control_plane

async def compose():
    async with serve_simulation() as simulation, await simulated_control_plane(simulation) as kcp:
        async with lifecycle_manager(Settings(), kcp) as manager:
            print(*manager.controllers)

assert type(takeover()) is Takeover and "kyma-selector" not in options()
assert not is_former({"metadata": {}}) and not is_former({"metadata": {"labels": {names.MANAGED_BY: "kyma"}}})
asyncio.run(compose())
"""


def run_without(program: str) -> str:
    """Run a program in a process in which the package is not installed."""
    return output_of(sys.executable, "-c", HIDDEN + program)


def output_of(*command: str) -> str:
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_service_is_composed_without_the_takeover() -> None:
    assert {"kyma", "manifest"} <= set(run_without(COMPOSE).split())


def test_klm_has_no_command_of_the_takeover_without_it() -> None:
    listed = run_without("from lifecycle_manager.cli import app; app(['--help'], standalone_mode=False)")
    assert "  status " in listed
    assert "  adopt " not in listed


def test_no_source_outside_names_the_package() -> None:
    """The workspace, the image and the charts list it; nothing that they list otherwise knows it."""
    listed = output_of("git", "grep", "-l", "kyma_takeover", "--", "*.py").split()
    named = [file for file in listed if not file.startswith(GO_WITH_IT)]
    assert [file for file in named if "/src/" in file] == []
