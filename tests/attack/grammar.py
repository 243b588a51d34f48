"""Documents that nobody should send: good ones, of which parts are left out, doubled, or replaced by hostile values.

All is drawn from one `random.Random`, so that a seed is a document.
"""

import random
from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

DEPTHS = (100, 400, 1_500, 10_000)
NUMBERS = (b"0", b"-1", b"1e999", b"-1e999", b"9" * 30, b"9" * 5_000, b"0.1", b"2147483648", b"18446744073709551616")
STRINGS = (
    b'""',
    b'"."',
    b'".."',
    b'"../../etc/passwd"',
    b'"a/b"',
    b'"a%2fb"',
    b'"\\ud800"',
    b'"\\u0000"',
    b'"\\u001b[31m"',
    b'"\\u202e"',
    b'"\xff"',
    b'"Infinity"',
    b'"0000-00-00T00:00:00Z"',
    b'"9999-12-31T23:59:59Z"',
    b'"1970-01-01T00:00:00Z"',
    b'"https://169.254.169.254/"',
    b'"file:///etc/passwd"',
    b'"https://["',
    b'"https://a..b/"',
    b'"99999999h"',
    b'"x\\n*"',
    b'"{{ .Values }}"',
)
SHAPES = (
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"[null]",
    b'{"":""}',
    b'{"a":1,"a":2}',
    b"NaN",
    b"Infinity",
    b"",
    b"'single'",
    b"/* comment */ 1",
)
_MARK = "\N{INVISIBLE SEPARATOR}"
Path = tuple[str | int, ...]


def hostile_value(draw: random.Random) -> bytes:
    """Return what stands where a value of JSON is expected."""
    match draw.randrange(6):
        case 0:
            depth = draw.choice(DEPTHS)
            opening, closing = draw.choice(((b"[", b"]"), (b'{"a":', b"}")))
            return opening * depth + (closing * depth if draw.random() < 0.8 else b"")
        case 1:
            return draw.choice(NUMBERS)
        case 2:
            return b'"' + draw.choice((b"x", b"\\u00e4", b"a/")) * draw.choice((64, 300, 70_000)) + b'"'
        case 3:
            return draw.choice(SHAPES)
        case _:
            return draw.choice(STRINGS)


def hostile_json(good: Any, draw: random.Random) -> bytes:
    """Return a good document after one to three changes, and now and then one of its bytes."""
    document = msgspec.json.decode(msgspec.json.encode(good))
    values = [hostile_value(draw) for _ in range(draw.randint(1, 3))]
    for number in range(len(values)):
        paths = [*_paths(document)]
        if not paths:
            return draw.choice(values)
        *way, last = draw.choice(paths)
        holder = document
        for part in way:
            holder = holder[part]
        match draw.randrange(5):
            case 0:
                del holder[last]
            case 1 if isinstance(holder, dict):
                holder[f"{last}{_MARK}"] = holder[last]  # the same key twice
            case _:
                holder[last] = f"{_MARK}{number}{_MARK}"
    text = msgspec.json.encode(document)
    for number, value in enumerate(values):
        text = text.replace(f'"{_MARK}{number}{_MARK}"'.encode(), value)
    text = text.replace(_MARK.encode(), b"")
    return hostile_bytes(text, draw) if draw.random() < 0.2 else text


def hostile_bytes(good: bytes, draw: random.Random) -> bytes:
    """Return bytes from which something is cut out, and into which something is put."""
    start = draw.randint(0, len(good))
    junk = draw.choice(
        (b"", b"\x00", b"\xff\xfe", b"\r\n\r\n", b"}", b'"', b"---\n", draw.randbytes(draw.randint(1, 40)))
    )
    return good[:start] + junk + good[start + draw.choice((0, 1, 30, len(good))) :]


def _paths(document: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the place of every value below the top."""
    inner: Iterable[tuple[str | int, Any]] = ()
    if isinstance(document, dict):
        inner = document.items()
    elif isinstance(document, list):
        inner = enumerate(document)
    for name, value in inner:
        yield (*path, name)
        yield from _paths(value, (*path, name))
