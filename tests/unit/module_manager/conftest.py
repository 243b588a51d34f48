"""No event loop of asyncio's own."""

import asyncio

# Otherwise asyncio opens an event loop in the first test that runs one, and does not close it.
asyncio.set_event_loop(None)
