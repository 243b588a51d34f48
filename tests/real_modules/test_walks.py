"""Short walks beside kubectl, and those that once ended in a difference."""

from pathlib import Path

import pytest

from tests.real_modules.clusters import open_pair
from tests.real_modules.walk import Walk

SEEDS = (1,)
STEPS = 4


@pytest.mark.parametrize("seed", SEEDS)
async def test_clusters_are_as_kubectl_has_them_after_each_step(
    seed: int, theirs: Path, ours: Path, tmp_path: Path
) -> None:
    async with open_pair(tmp_path, (theirs, ours), with_flux=False) as pair:
        await Walk(pair, seed).run(STEPS)
    assert pair.count.steps > STEPS
