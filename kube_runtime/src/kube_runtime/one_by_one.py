"""Turns of work that takes long: one step in an iteration of the event loop, whoever's it is."""

import asyncio

__all__ = ["OneByOne"]


class OneByOne:
    """Lets one step begin in an iteration, in the order in which they ask; everybody else goes on in between.

    The steps of many clusters at once would else make one long iteration, which delays what others do by all of them.
    """

    def __init__(self) -> None:
        self._next = asyncio.Lock()

    async def turn(self) -> None:
        """Wait until the next step may begin."""
        async with self._next:
            await asyncio.sleep(0)
