"""`klm adopt`, killed after any of its writes, ends the same when it is run again, and can be taken back from there.

Of writes to many objects of a kind in a row, the first and the last are tried; with KLM_TEST_EVERY_WRITE set, all are.
"""

import os
import re
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import pytest
import pytest_asyncio

from kube_runtime import dump_yaml, load_yaml
from tests.takeover_from_go import recorder, surroundings
from tests.takeover_from_go.conftest import Stage
from tests.takeover_from_go.differing import differing_fields, unexpected
from tests.takeover_from_go.interruption import Interruptions
from tests.takeover_from_go.test_there_and_back import REMOVED

pytestmark = pytest.mark.timeout(900)  # klm runs five times for each of its writes, on a busy machine for minutes
ADOPT = ("adopt", "--yes", "--allow-insecure-kubeconfigs")
LABEL = "example.com/lifecycle-manager"
WHOLE: tuple[str, ...] = ()
SPLIT = ("--kyma-selector", f"{LABEL}=python", "--all")
COUNTED = re.compile(r"(restartedAt|[gG]eneration): .*")
MIN_WRITES = {WHOLE: 2, SPLIT: 15}
LEFT_CHANGED = {WHOLE: [], SPLIT: ["Deployment spec.template.metadata.annotations.kubectl.kubernetes.io/restartedAt"]}
"""What is left changed on purpose: to split a fleet, the former version is restarted."""


@pytest.fixture(scope="module")
def program() -> Path | None:
    return None  # the Go version would write between the runs


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def interruptions(stage: Stage) -> AsyncIterator[Interruptions]:
    """Proxies before all clusters, by which those of users are reached from now on."""
    clusters = stage.clusters
    async with Interruptions.before(clusters.kcp, *clusters.skrs) as running:
        for runtime, cluster in zip(surroundings.RUNTIMES, clusters.skrs, strict=True):
            access = surroundings.access_of(runtime, running.kubeconfig(cluster))
            await surroundings.apply(stage.kcp, access, "infrastructure-manager")
        yield running


@pytest.fixture(scope="module")
def kubeconfig(stage: Stage, interruptions: Interruptions, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A kubeconfig of the control plane that leads through the proxy."""
    file = tmp_path_factory.mktemp("klm") / "kubeconfig"
    file.write_text(interruptions.kubeconfig(stage.clusters.kcp))
    return file


@pytest.fixture
def adoption(stage: Stage, interruptions: Interruptions, kubeconfig: Path) -> "Adoption":
    return Adoption(stage, interruptions, kubeconfig)


@dataclass(frozen=True)
class Adoption:
    """Runs of `klm adopt`."""

    stage: Stage
    interruptions: Interruptions
    kubeconfig: Path

    async def is_interrupted(self, writes: int, *arguments: str) -> bool:
        """Run it, end it by kill -9 after so many writes, and return whether it had more to write."""
        code = await self.interruptions.interrupt(self.kubeconfig, *ADOPT, *arguments, after=writes)
        assert code in {None, 0}
        return code is None

    async def outcome(self, *arguments: str) -> dict[str, str]:
        """Run it to its end, and return what is in the clusters then, without what counts how often it ran."""
        result = await self.interruptions.run(self.kubeconfig, *ADOPT, *arguments)
        assert result.code == 0, result
        found = await self.stage.recording()
        return {file: COUNTED.sub("", lasting(file, text)) for file, text in found.items()}


@pytest.mark.parametrize("scope", [WHOLE, SPLIT], ids=["whole", "split"])
async def test_takeover_ends_the_same_from_everywhere(
    adoption: Adoption, stage: Stage, before: dict[str, str], scope: tuple[str, ...]
) -> None:
    adopted = await adoption.outcome(*scope)
    places = places_among(adoption.interruptions.passed)
    returned = await adoption.outcome("--back", *scope)
    assert adopted != returned
    assert given_back(await stage.recording()) == LEFT_CHANGED[scope]
    for writes in places:
        if not await adoption.is_interrupted(writes, *scope):
            break
        assert await adoption.outcome(*scope) == adopted, f"run again after write {writes}"
        assert await adoption.outcome("--back", *scope) == returned, f"given back after write {writes} and the others"
        assert await adoption.is_interrupted(writes, *scope)
        assert await adoption.outcome("--back", *scope) == returned, f"given back after write {writes}"
    else:
        pytest.fail("it had more to write than before")
    assert writes > MIN_WRITES[scope]
    await adoption.outcome("--back", *scope)
    assert await stage.identities() == before


def places_among(writes: Sequence[str]) -> list[int]:
    """Return after how many writes a run is ended: where the next one, or the one before, is to another kind."""
    if "KLM_TEST_EVERY_WRITE" in os.environ:
        return [*range(1, len(writes) + 1)]
    turns = {number for number, (one, other) in enumerate(pairwise(writes), start=1) if one != other}
    return sorted({1, len(writes)} | turns | {each + 1 for each in turns})


def lasting(file: str, text: str) -> str:
    """Return what is in a cluster without the status that the controller of Deployments writes some time later."""
    if "/Deployment__" not in file:
        return text
    document = load_yaml(text)
    return dump_yaml({"annotations": document["metadata"].get("annotations"), "spec": document["spec"]})


def given_back(found: dict[str, str]) -> list[str]:
    """Return the fields that no way back should leave changed."""
    compared = {
        file: text
        for file, text in recorder.written().items()
        if "/CustomResource" not in file
        and not file.startswith("kcp/Watcher")
        and file.removesuffix(".yaml") not in REMOVED
        and "skr-webhook" not in file
    }
    return unexpected(differing_fields(compared, found))
