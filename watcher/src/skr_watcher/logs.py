"""Logs as JSON lines, with the same fields as the programs of the control plane."""

import logging
import sys
from datetime import UTC, datetime

import msgspec

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
    """Limits the lines per second of a message that could be logged thousands of times per second."""

    def __init__(self, per_second: int = 100) -> None:
        self._per_second = per_second
        self._second = 0
        self._granted = 0
        self._denied = 0
        self.denied_before = 0

    def grants(self, now: float) -> bool:
        """Return whether a line may be written; `denied_before` is then the number of lines denied since the last."""
        if int(now) != self._second:
            self._second, self._granted = int(now), 0
        if self._granted >= self._per_second:
            self._denied += 1
            return False
        self._granted += 1
        self.denied_before, self._denied = self._denied, 0
        return True


def configure_logs(level: str) -> None:
    """Send all logs to stderr as JSON lines."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    logging.basicConfig(level=level, handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").setLevel(logging.WARNING)
