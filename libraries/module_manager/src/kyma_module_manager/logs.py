"""Structured logs of the SDK and the runtime: JSON lines, or colours on a terminal."""

import logging
import sys

import structlog


def configure_logs(level: str = "INFO") -> None:
    """Write the logs of this process to the standard error."""
    shared: list[structlog.typing.Processor] = [
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"),
        structlog.stdlib.ExtraAdder(),
    ]
    output: list[structlog.typing.Processor] = [structlog.dev.ConsoleRenderer(timestamp_key="time")]
    if not sys.stderr.isatty():
        to_json = structlog.processors.JSONRenderer()
        output = [structlog.processors.format_exc_info, structlog.processors.EventRenamer("msg"), to_json]
    handler = logging.StreamHandler(sys.stderr)
    formatter = structlog.stdlib.ProcessorFormatter
    handler.setFormatter(formatter(foreign_pre_chain=shared, processors=[formatter.remove_processors_meta, *output]))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    structlog.configure(
        processors=[structlog.stdlib.filter_by_level, *shared, formatter.wrap_for_formatter],
        wrapper_class=structlog.stdlib.BoundLogger,
        logger_factory=structlog.stdlib.LoggerFactory(),
        cache_logger_on_first_use=True,
    )
