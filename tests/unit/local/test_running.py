"""What the commands of local clusters pass on."""

import pytest
from typer.testing import CliRunner

from kyma_local import running
from kyma_local.binaries import BinariesMissing
from kyma_local.cli import app
from kyma_local.progress import Listener
from kyma_local.sources import Versions


def test_clusters_have_the_version_of_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_listener: Listener, *, versions: Versions) -> None:
        raise BinariesMissing(f"nothing for {versions.kubernetes}")

    monkeypatch.setattr(running, "find_binaries", find)
    done = CliRunner().invoke(app, ["up", "--kubernetes", "v1.34.4"])
    assert (done.exit_code, "nothing for v1.34.4" in done.output) == (1, True)
