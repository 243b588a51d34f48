"""Bounds on a JSON text of somebody who is not trusted, checked before it is decoded.

A decoded value needs up to 24 times the bytes of its text, and its time is spent before anybody could count it. This
counts on the bytes alone, by functions that do so at the speed of memory.
"""

from dataclasses import dataclass

from kube_runtime.exceptions import ResponseTooLarge
from kube_runtime.parsing import parse_aside

ASIDE_BYTES = 64 * 1024

_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))


@dataclass(frozen=True, slots=True)
class JsonLimits:
    """How many bytes a text has at most, how many values, and how deep they are nested.

    The depth is measured cheaply: `max_depth` levels are always accepted, more than twice as many never. Without it the
    decoder refuses what is nested deeper than Python's stack.
    """

    max_bytes: int
    max_nodes: int
    max_depth: int | None = 100


def check_json(text: bytes, limits: JsonLimits) -> int:
    """Return the number of values in a JSON text, or a few more. Raises ResponseTooLarge.

    What is no JSON is left to the decoder.
    """
    if len(text) > limits.max_bytes:
        raise ResponseTooLarge(f"more than {limits.max_bytes} bytes")
    nodes = _count(text)
    if nodes > limits.max_nodes:  # or there are commas and brackets in strings
        text = _without_strings(text, limits)
        nodes = _count(text)
        if nodes > limits.max_nodes:
            raise _too_many(limits)
    most = limits.max_depth
    if most is not None and _opened(text) > most and _is_too_deep(_without_strings(text, limits), most):
        raise ResponseTooLarge(f"nested deeper than {most} levels")
    return nodes


async def check_json_aside(text: bytes, limits: JsonLimits) -> int:
    """Do the same outside the event loop where it takes long: brackets without end are searched several times."""
    if len(text) <= ASIDE_BYTES:
        return check_json(text, limits)
    return await parse_aside(len(text), check_json, text, limits)


def _opened(text: bytes) -> int:
    return text.count(b"{") + text.count(b"[")


def _count(text: bytes) -> int:
    """Return an upper bound: each value is the first one, or follows a comma or the beginning of an object or list."""
    return 1 + text.count(b",") + _opened(text)


def _without_strings(text: bytes, limits: JsonLimits) -> bytes:
    """Return what is outside of strings. Raises ResponseTooLarge for more strings than there may be values."""
    unescaped = text.replace(b"\\\\", b"").replace(b'\\"', b"") if b"\\" in text else text
    if unescaped.count(b'"') > 4 * limits.max_nodes:  # two quotes each for a key and its value
        raise _too_many(limits)
    return b"".join(unescaped.split(b'"')[::2])


def _is_too_deep(text: bytes, max_depth: int) -> bool:
    """Tell whether something is left after the innermost pairs were removed so many times."""
    brackets = text.translate(None, _NO_BRACKETS)
    for _ in range(max_depth):
        if not brackets:
            return False
        brackets = brackets.replace(b"{}", b"").replace(b"[]", b"")
    return bool(brackets)


def _too_many(limits: JsonLimits) -> ResponseTooLarge:
    return ResponseTooLarge(f"more than {limits.max_nodes} values")
