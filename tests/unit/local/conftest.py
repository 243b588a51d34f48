"""No event loop is made behind the tests' back.

looptime asks for the current loop before every test; where there never was one, asyncio would make one that
nobody closes.
"""

import asyncio

asyncio.set_event_loop(None)
