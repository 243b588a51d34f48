"""`klm preview` against a real API server, by somebody with the ClusterRole `klm-viewer` alone."""

from collections.abc import AsyncIterator
from typing import Any

import pytest_asyncio

from kube_runtime import Client
from lifecycle_manager.contract.resources import KYMAS, MODULE_RELEASE_METAS, ROLLOUT_STRATEGIES
from lifecycle_manager_api import names
from tests import builders
from tests.integration.fleet.conftest import Klm, put_kyma, written

KCP = names.KCP_NAMESPACE


def having(version: str, channel: str = "regular") -> dict[str, Any]:
    return {"state": "Ready", "modules": [builders.module_status("lights", version, channel=channel, template=None)]}


@pytest_asyncio.fixture
async def offered(control_plane: Client) -> AsyncIterator[Client]:
    """A module in two versions, the newer of which is not released, and three Kymas."""
    templates = [builders.template("lights", version, installs=True) for version in ("1.0.0", "2.0.0")]
    kymas = {"lit": having("1.0.0"), "ahead": having("3.0.0"), "fast": having("1.0.0", "fast")}
    async with written(control_plane, *templates, builders.release("lights", regular="1.0.0", fast="1.0.0")):
        for name, status in kymas.items():
            await put_kyma(control_plane, name, status)
        yield control_plane
        for name in kymas:
            await control_plane.delete(KYMAS, name, KCP)


async def test_release_is_previewed_and_nothing_is_written(offered: Client, viewer: Klm) -> None:
    result = await viewer("preview", "lights", "2.0.0", "--channel", "regular")
    assert result.code == 0, result.errors
    assert result.lines[:2] == ["lights 2.0.0 in channel regular", "  1 Kyma would get it, instead of 1.0.0 (1)"]
    assert "DowngradeNotAllowed  1      ahead" in result.text
    release = await offered.get(MODULE_RELEASE_METAS, "lights", KCP)
    assert {each.version for each in release.spec.channels} == {"1.0.0"}
    missing = await viewer("preview", "lights", "9.0.0")
    assert (missing.code, "ModuleTemplate lights-9.0.0 does not exist" in missing.errors) == (2, True)


async def test_a_cluster_that_cannot_be_compared_does_not_end_the_preview(offered: Client, viewer: Klm) -> None:
    result = await viewer("preview", "lights", "2.0.0", "--sample", "2", "-o", "markdown")
    assert result.code == 0, result.errors
    assert result.text.startswith("### lights 2.0.0 in all its channels\n")
    assert result.text.count("#### objects in the cluster of ") == 2


async def test_large_change_without_a_strategy_is_previewed_in_default_waves(offered: Client, viewer: Klm) -> None:
    await offered.merge_patch(KYMAS, "fast", {"metadata": {"labels": {names.BROKER_PLAN_NAME: "trial"}}}, KCP)
    small = await viewer("preview", "lights", "2.0.0", "--max-changed-clusters", "2")
    assert (small.code, "trial" in small.text) == (0, False)
    large = await viewer("preview", "lights", "2.0.0", "--max-changed-clusters", "1")
    assert large.code == 0, large.errors
    waves = [line for line in large.lines if line.startswith(("trial", "remaining"))]
    assert [("fast" in line, "lit" in line) for line in waves] == [(True, False), (False, True)]


async def test_module_with_a_strategy_is_previewed_wave_by_wave(offered: Client, viewer: Klm) -> None:
    mark = {"metadata": {"annotations": {names.ROLLOUT_STRATEGY: "careful"}}}
    await offered.merge_patch(MODULE_RELEASE_METAS, "lights", mark, KCP)
    missing = await viewer("preview", "lights", "2.0.0")
    assert (missing.code, "RolloutStrategy careful does not exist" in missing.errors) == (2, True)

    quick = {"name": "quick", "kymaSelector": {"matchLabels": {"stage": "quick"}}, "soak": "1h"}
    spec = {"waves": [quick], "remaining": {"approval": "required", "maxConcurrent": "50%"}}
    document = {"metadata": {"name": "careful"}, "spec": spec}
    await offered.create(ROLLOUT_STRATEGIES, document, KCP, field_manager="test")
    await offered.merge_patch(KYMAS, "fast", {"metadata": {"labels": {"stage": "quick"}}}, KCP)
    for arguments in ((), ("-o", "markdown")):
        shown = await viewer("preview", "lights", "2.0.0", *arguments)
        assert shown.code == 0, shown.errors
        waves = [line for line in shown.lines if line.strip("| ").startswith(("quick", "remaining"))]
        assert [("fast" in line, "lit" in line, "and approval" in line) for line in waves] == [
            (True, False, False),
            (False, True, True),
        ]
    await offered.delete(ROLLOUT_STRATEGIES, "careful", KCP)
