"""Structured logs: JSON lines, or colours on a terminal; the runtime's own lines go the same way."""

import logging
import sys
from typing import TextIO

import structlog

__all__ = ["configure_logs"]


def configure_logs(level: str = "INFO", *, stream: TextIO | None = None) -> None:
    """Send this process's logs to a stream, the standard error by default."""
    target = stream or sys.stderr
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.stdlib.ExtraAdder(),
    ]
    handler = logging.StreamHandler(target)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *_rendering(target)],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    structlog.configure(
        processors=[
            structlog.stdlib.filter_by_level,
            *shared,
            structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
        ],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )


def _rendering(target: TextIO) -> list[structlog.typing.Processor]:
    if target.isatty():
        return [structlog.dev.ConsoleRenderer(timestamp_key="time")]
    return [
        structlog.processors.format_exc_info,
        structlog.processors.EventRenamer("msg"),
        structlog.processors.JSONRenderer(),
    ]
