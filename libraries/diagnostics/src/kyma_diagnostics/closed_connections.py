"""Closed connections that are no error: peers end theirs at any moment, above all when a stopped process goes on.

uvloop goes on reading what it has received by TLS where the socket was closed meanwhile, and logs that as a fatal error
with its traceback (its issue 506).
"""

import logging

_CLOSED = "the handler is closed"


def quiet_closed_connections() -> None:
    """Leave them out of the log of the event loop."""
    log = logging.getLogger("asyncio")
    if _is_error not in log.filters:
        log.addFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and str(error).endswith(_CLOSED)
    return not (is_closed and record.getMessage().startswith("Fatal error on SSL protocol"))
