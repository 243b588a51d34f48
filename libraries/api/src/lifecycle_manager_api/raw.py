"""Decodes fields that hold objects of any kind."""

from typing import Any

import msgspec


def raw_object(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the decoded object, or None if there is none."""
    content = msgspec.json.decode(raw)
    return content if isinstance(content, dict) else None
