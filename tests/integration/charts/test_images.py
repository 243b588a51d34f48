"""`klm images` lists what the charts name, from any registry."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kyma_fleet.images import images_of
from kyma_fleet.problems import Problem
from tests.integration.charts.helm import LIFECYCLE_MANAGER, MODULE_MANAGER, Helm

MANAGER = "manager: a.b:c\nmodule: telemetry\nnamespace: kcp-system\n"
DIGEST = f"sha256:{'1' * 64}"


def named(rendered: list[dict[str, Any]]) -> Iterator[str]:
    """Yield the images of a chart's Deployment, and the Watcher's, which Lifecycle Manager installs."""
    for each in rendered:
        if each["kind"] == "Deployment":
            for container in each["spec"]["template"]["spec"]["containers"]:
                yield container["image"]
                yield from (a.partition("=")[2] for a in container["args"] if a.startswith("--skr-watcher-image="))


@pytest.mark.parametrize(
    ("of_manager", "of_module"),
    [
        (["image: {registry: mirror.test/kyma}\n"], "image: {registry: mirror.test/kyma, tag: 1.2.3}\n"),
        (["image: {registry: mirror.test, tag: '2'}\n", f"image: {{digest: '{DIGEST}'}}\n"], ""),
        (["image: {registry: mirror.test}\nwatcher: {image: 'other.test/watcher@" + DIGEST + "'}\n"], ""),
        ([f"image: {{digest: '{DIGEST}'}}\nwatcher: {{digest: '{DIGEST}'}}\n"], ""),
        ([], f"image: {{repository: own, digest: '{DIGEST}'}}\n"),
    ],
)
async def test_listed_images_are_those_of_the_rendered_charts(
    helm: Helm, tmp_path: Path, of_manager: list[str], of_module: str
) -> None:
    files = [tmp_path / f"{number}.yaml" for number in range(len(of_manager))]
    for file, text in zip(files, of_manager, strict=True):
        file.write_text(text)
    module = tmp_path / "module.yaml"
    module.write_text(MANAGER + of_module)
    given = [option for file in files for option in ("-f", str(file))]
    address = ("--set", "events.address=kcp.test:443")
    rendered = [
        *await helm.render(LIFECYCLE_MANAGER, *given, *address),
        *await helm.render(MODULE_MANAGER, "-f", str(module)),
    ]
    assert sorted(images_of(files, [module], registry="").images) == sorted(named(rendered))


async def test_values_that_are_none_are_refused_with_their_file(tmp_path: Path) -> None:
    (tmp_path / "broken.yaml").write_text("- a\n")
    with pytest.raises(Problem, match=r"broken.yaml: expected a mapping"):
        images_of([tmp_path / "broken.yaml"], [], registry="")
