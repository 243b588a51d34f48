"""A short campaign on every surface, and every sample that once was a finding."""

import random
from pathlib import Path

import pytest

from tests.attack.__main__ import KEPT
from tests.attack.surfaces import SURFACES, Surface, attack_with

ATTACKS = {"api-server": 4, "registry": 4, "fleet": 1}
DOCUMENTS = 150


@pytest.mark.parametrize("name", SURFACES)
async def test_nothing_comes_of_attacks(name: str) -> None:
    surface = SURFACES[name]
    samples = [surface.sample(_seeded(number)) for number in range(ATTACKS.get(name, DOCUMENTS))]
    await _attack(surface, [*_kept(name), *samples])


def test_kept_samples_are_of_known_surfaces() -> None:
    assert {each.name for each in KEPT.iterdir()} <= set(SURFACES)


def _kept(name: str) -> list[bytes]:
    return [each.read_bytes() for each in sorted(Path(KEPT / name).glob("*"))]


def _seeded(number: int) -> random.Random:
    return random.Random(number)  # noqa: S311 - repeatable, and no secret


async def _attack(surface: Surface, samples: list[bytes]) -> None:
    async with surface.open() as attack:
        for sample in samples:
            await attack_with(surface, attack, sample)
