"""What all tests have in common."""

import asyncio

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("on any machine", deadline=None)
settings.load_profile("on any machine")

# looptime asks for the current loop before every test; where there never was one, asyncio would make one that nobody
# closes.
asyncio.set_event_loop(None)
