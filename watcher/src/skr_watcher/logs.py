"""Logs as JSON lines, with the same fields as the programs of the control plane."""

import logging
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from kyma_diagnostics.closed_connections import quiet_closed_connections
from skr_watcher.rate_limit import WatcherRateLimit

_PLAIN = frozenset(logging.makeLogRecord({}).__dict__) | {"message", "asctime", "taskName"}
_encoder = msgspec.json.Encoder(enc_hook=str)


class JsonFormatter(logging.Formatter):
    """Formats a record as one JSON line: time, level, logger, msg, and the extra fields."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat().replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        line |= {key: value for key, value in record.__dict__.items() if key not in _PLAIN}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return _encoder.encode(line).decode()


class LogRateLimit:
    """Limits the lines of a message that could be logged thousands of times per second, evenly, with small bursts.

    A line takes longer than a review. A hundred of them at the beginning of each second would delay all reviews that
    arrive in those 25 ms, which is one in forty.
    """

    def __init__(self, per_second: float = 50.0, burst: int = 10, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._rate = WatcherRateLimit(per_second, burst)
        self._denied = 0
        self.denied_before = 0

    def grants(self) -> bool:
        """Return whether a line may be written; `denied_before` is then the number of lines denied since the last."""
        now = self.clock()
        if self._rate.wait(now):
            self._denied += 1
            return False
        self._rate.take(now)
        self.denied_before, self._denied = self._denied, 0
        return True


def configure_logs(level: str) -> None:
    """Send all logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
    quiet_closed_connections()
