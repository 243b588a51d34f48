"""Work that takes long: its steps in iterations of the event loop."""

import asyncio

from kube_runtime.one_by_one import OneByOne


async def test_one_step_begins_in_an_iteration_and_all_have_their_turn() -> None:
    turns, iteration, ran = OneByOne(), 0, list[tuple[str, int]]()

    async def count() -> None:
        nonlocal iteration
        while True:
            iteration += 1
            await asyncio.sleep(0)

    async def work(name: str) -> None:
        for _ in range(3):
            await turns.turn()
            ran.append((name, iteration))

    counting = asyncio.create_task(count())
    await asyncio.gather(*(work(name) for name in "abc"))
    counting.cancel()
    assert len({when for _, when in ran}) == len(ran)
    assert [name for name, _ in ran[:3]] == ["a", "b", "c"]
