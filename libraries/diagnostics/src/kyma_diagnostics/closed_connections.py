"""Keeps closed connections out of the error log: peers may close theirs at any time.

When a TLS socket is closed while uvloop still reads received data, uvloop logs a fatal error with a traceback (its
issue 506). Many of these appear at once after a process was stopped and continues.
"""

import logging

_CLOSED = "the handler is closed"


def quiet_closed_connections() -> None:
    """Do not log them as errors of the event loop."""
    log = logging.getLogger("asyncio")
    if _is_error not in log.filters:
        log.addFilter(_is_error)


def _is_error(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    is_closed = isinstance(error, RuntimeError) and str(error).endswith(_CLOSED)
    return not (is_closed and record.getMessage().startswith("Fatal error on SSL protocol"))
