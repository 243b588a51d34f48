"""Objects of any shape, decoded when somebody asks."""

from typing import Any

import msgspec


def raw_object(raw: msgspec.Raw) -> dict[str, Any] | None:
    """Return the object that was left undecoded, None where there is none."""
    content = msgspec.json.decode(raw)
    return content if isinstance(content, dict) else None
