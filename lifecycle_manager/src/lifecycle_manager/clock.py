"""The time as the Kubernetes API has it."""

from datetime import UTC, datetime


def utc_now() -> datetime:
    """Return the time as Kubernetes writes it: UTC, whole seconds."""
    return datetime.now(UTC).replace(microsecond=0)
