"""JSON texts that are nested deeper than the decoder's stack: they are cut without recursion, to tell what they are."""

import re

from kube_runtime.client.json_limits import JsonLimits, check_json
from kube_runtime.exceptions import ResponseTooLarge

MAX_JSON_DEPTH = 100
"""How deep a field of any content is nested: this deep is always accepted, more than twice as deep never."""

_STEP = re.compile(rb'(?:"[^"\\]*(?:\\.[^"\\]*)*"[^"\[\]{}]*)+|[\[{]+|[\]}]+|"', re.DOTALL)


def cut_json(text: bytes, depth: int) -> tuple[bytes, list[bytes]]:
    """Return the objects and lists below `depth`, and a text in which their numbers, from 0, stand for them.

    What is no JSON stays none.
    """
    kept: list[bytes] = []
    removed: list[bytes] = []
    level = start = begin = 0
    for match in _STEP.finditer(text):
        brackets, at = match[0], match.start()
        if brackets == b'"':  # a string without an end
            break
        if brackets[0] in b"[{":
            if level <= depth < level + len(brackets):
                begin = at + depth - level
                kept.append(text[start:begin])
                start = len(text)
            level += len(brackets)
        elif brackets[0] in b"]}":
            if level > depth >= level - len(brackets):
                start = at + level - depth
                kept.append(b"%d" % len(removed))
                removed.append(text[begin:start])
            level -= len(brackets)
    kept.append(text[start:])
    return b"".join(kept), removed


def require_readable(text: bytes) -> None:
    """Raise for what could be copied undecoded here, and not be read by the functions that use it.

    RecursionError for a JSON text that is nested deeper than MAX_JSON_DEPTH, whatever the stack has room for;
    UnicodeDecodeError for one that is not in UTF-8.
    """
    if not text.isascii():
        text.decode()
    try:
        check_json(text, JsonLimits(max_bytes=len(text), max_nodes=len(text) + 1, max_depth=MAX_JSON_DEPTH))
    except ResponseTooLarge as error:
        raise RecursionError(str(error)) from None
