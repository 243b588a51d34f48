"""Structured logs: JSON in a cluster, colours on a terminal, the same fields as the Watcher writes.

Needs the extra `logs`.
"""

import logging
import sys
from typing import Literal

import msgspec
import structlog

from kyma_diagnostics.closed_connections import quiet_closed_connections


def configure_logs(level: str = "INFO", log_format: Literal["auto", "json", "console"] = "auto") -> None:
    """Send structlog and the standard library's logs to stderr in one shape: time, level, logger, msg and fields."""
    console = log_format == "console" or (log_format == "auto" and sys.stderr.isatty())
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_logger_name,
        structlog.stdlib.add_log_level,
        structlog.stdlib.ExtraAdder(),
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.processors.format_exc_info,
    ]
    last: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(timestamp_key="time")]
        if console
        else [
            structlog.processors.EventRenamer("msg"),
            structlog.processors.JSONRenderer(serializer=_to_json),
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=shared,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *last],
        )
    )
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    # The client's debug logs would print Secrets, and httpx logs each event that is handed over to another replica.
    for noisy in ("aiohttp.access", "uvicorn.access", "kubernetes_asyncio", "asyncio", "httpx"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
    quiet_closed_connections()
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
        cache_logger_on_first_use=True,
    )


def _to_json(content: object, **_: object) -> str:
    return msgspec.json.encode(content, enc_hook=str).decode()
