"""Times as objects and annotations have them: written by whoever may, so that not each is one."""

from datetime import UTC, datetime


def time_in(text: object) -> datetime | None:
    """Return the time that a text says, in UTC where it names no zone; None for anything else."""
    try:
        found = datetime.fromisoformat(str(text or ""))
    except ValueError:
        return None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
