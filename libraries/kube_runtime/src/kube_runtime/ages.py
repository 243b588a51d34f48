"""How long something lasts, as kubectl writes it."""

from datetime import datetime, timedelta


def age(since: datetime | None, now: datetime) -> str:
    """Return how long something lasts, in its two largest units at most: 45s, 3m, 5h12m, 4d."""
    if since is None:
        return "-"
    return duration(now - since)


def duration(length: timedelta) -> str:
    """Return a length of time."""
    seconds = max(int(length.total_seconds()), 0)
    if seconds < 120:
        return f"{seconds}s"
    minutes, hours, days = seconds // 60, seconds // 3600, seconds // 86400
    if minutes < 60:
        return f"{minutes}m"
    if hours < 10:
        return f"{hours}h{minutes % 60}m" if minutes % 60 else f"{hours}h"
    return f"{hours}h" if hours < 48 else f"{days}d"
