"""Letting go of the answer that an object came in.

A `msgspec.Raw` field is a view of the bytes it was decoded from. `detacher_for` returns a function that replaces each
such view in an object by a copy of its own few bytes, made once a type from its annotations; None where a type has no
such field, which costs nothing then. What is nested too deep raises RecursionError here, as it would where it is used.
"""

from typing import Any

import msgspec
from msgspec import inspect

from kube_runtime.client.nesting import require_readable
from kube_runtime.rewriting import Rewrite, rewriter_for

__all__ = ["detacher_for"]


def detacher_for(kind: type[Any]) -> Rewrite | None:
    """Return a function that detaches an object of this type in place, or None where there is nothing to do."""
    return rewriter_for(kind, lambda part: _copied if isinstance(part, inspect.RawType) else None)


def _copied(raw: msgspec.Raw) -> msgspec.Raw:
    require_readable(bytes(raw))
    return raw.copy()
