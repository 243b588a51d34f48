"""A small fleet is taken over: each object costs one patch and one apply, and no event and no change is lost."""

from argparse import Namespace

from benchmarks.takeover import measure


async def test_takeover_of_a_fleet_loses_nothing_and_writes_each_object_once() -> None:
    figures = await measure(Namespace(kymas=20, events=40, changes=40, rate=4.0))
    assert [f"{each.name}: {each.value} {each.unit}" for each in figures if not each.met] == []
