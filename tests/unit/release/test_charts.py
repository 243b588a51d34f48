"""Charts of a release name its images by digest."""

import re
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import load_yaml
from tools.release import build
from tools.release.charts import NotPinned, pinned
from tools.release.version import current

DIGESTS = {"lifecycle-manager": f"sha256:{'1' * 64}", "skr-watcher": f"sha256:{'2' * 64}"}


def values_of(chart: str) -> str:
    return Path(f"charts/{chart}/values.yaml").read_text()


def test_manager_and_watcher_are_pinned_in_the_registry() -> None:
    values = load_yaml(pinned(values_of("lifecycle-manager"), "lifecycle-manager", DIGESTS, registry="r.test/kyma"))
    assert isinstance(values, dict)
    image = values["image"]
    assert (image["registry"], image["digest"]) == ("r.test/kyma", DIGESTS["lifecycle-manager"])
    assert values["watcher"]["digest"] == DIGESTS["skr-watcher"]


def test_image_that_a_module_team_replaces_is_not_pinned() -> None:
    digests = {"module-manager": f"sha256:{'3' * 64}"}
    values = load_yaml(pinned(values_of("module-manager"), "module-manager", digests, registry=""))
    assert isinstance(values, dict)
    assert values["image"]["digest"] == ""


@pytest.mark.parametrize("chart", ["lifecycle-manager", "skr-watcher", "module-manager"])
def test_nothing_is_changed_without_digests(chart: str) -> None:
    assert pinned(values_of(chart), chart, {}, registry="") == values_of(chart)


def test_values_without_a_place_are_refused() -> None:
    text = re.sub("digest", "other", values_of("skr-watcher"))
    with pytest.raises(NotPinned, match=r"image\.digest"):
        pinned(text, "skr-watcher", DIGESTS, registry="")


def test_charts_of_a_release_are_the_files_of_the_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dist, released = tmp_path / "dist", tmp_path / "packages"
    dist.mkdir()
    released.mkdir()
    for chart in ("lifecycle-manager", "skr-watcher", "module-manager"):
        (released / f"{chart}-{current()}.tgz").write_text(f"{chart} with digests")
    monkeypatch.setattr(build, "DIST", dist)
    build.build_charts({}, released)
    assert {file.name: file.read_text() for file in dist.iterdir()} == {
        file.name: file.read_text() for file in released.iterdir()
    }


def test_workflow_of_a_release_adds_the_charts_that_it_pushed_to_the_files() -> None:
    workflow: Any = load_yaml(Path(".github/workflows/release.yaml").read_text())
    jobs = workflow["jobs"]
    steps = "\n".join(step.get("run", "") for step in jobs["files"]["steps"])
    assert "\nmkdir packages\n" in steps.partition("helm pull")[0]  # helm pull does not create its folder
    assert 'make release-check ARGS="--charts packages"' in steps
