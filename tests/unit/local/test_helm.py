"""Helm is built once and then cached."""

import stat
from pathlib import Path

import pytest

from kyma_local import go_modules
from kyma_local.helm import HELM, find_helm
from kyma_local.progress import Listener
from kyma_local.sources import SourceFailed


def test_failed_build_leaves_nothing_and_cached_helm_is_not_built_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def find_no_go(_scratch: Path, _listener: Listener) -> str:
        raise SourceFailed("no Go")

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(go_modules, "find_go", find_no_go)
    for _ in range(2):
        with pytest.raises(SourceFailed, match="no Go"):
            find_helm()
    assert not list(tmp_path.rglob("helm"))
    program = tmp_path / "kyma-lifecycle-manager" / f"helm-{HELM.version}" / "helm"
    program.parent.mkdir()
    program.touch(mode=stat.S_IRWXU)
    assert find_helm() == program
