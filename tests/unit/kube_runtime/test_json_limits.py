"""A JSON text is bounded before it is decoded."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import BadRequest, JsonLimits, ResponseInvalid, ResponseTooLarge, TooManyRequests
from kube_runtime.client.answers import error_from_answer
from kube_runtime.client.decoding import decoding_for
from kube_runtime.client.json_limits import check_json
from kube_runtime.resource import version_number
from tests.cpu_time import takes_at_most

TEXT = st.text(st.sampled_from('{}[],":\\ax\n'), max_size=8)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=20,
)
LARGE = JsonLimits(max_bytes=8 * 1024 * 1024, max_nodes=100_000)


def nodes(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return 1 + sum(map(nodes, inner))


def empty(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else sum(map(empty, inner)) + (not inner)


def depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(depth, inner), default=0)


@given(VALUES)
def test_number_of_values_is_exact_whatever_strings_contain(value: Any) -> None:
    text = msgspec.json.encode(value)
    count = nodes(value) + empty(value)  # an empty object or list counts twice
    check_json(text, JsonLimits(len(text), count, 100))
    with pytest.raises(ResponseTooLarge):
        check_json(text, JsonLimits(len(text), count - 1, 100))


@given(VALUES)
def test_depth_is_limited_whatever_strings_contain(value: Any) -> None:
    text = msgspec.json.encode(value)
    check_json(text, JsonLimits(len(text), 1000, depth(value)))
    if depth(value):
        with pytest.raises(ResponseTooLarge):
            check_json(text, JsonLimits(len(text), 1000, (depth(value) - 1) // 2))


@given(st.binary(max_size=100) | TEXT.map(str.encode))
def test_any_bytes_are_accepted_or_refused(text: bytes) -> None:
    try:
        check_json(text, JsonLimits(50, 10, 3))
    except ResponseTooLarge:
        assert text


@pytest.mark.parametrize("unit", [b"{},", b'"a",', b"1,", b'{"a":[', b'"\\"",', b"[", b'{"":""},'])
def test_hostile_answer_is_refused_in_little_time(unit: bytes) -> None:
    text = b'{"metadata":{},"items":[' + unit * (8_000_000 // len(unit))

    def check() -> None:
        with pytest.raises(ResponseTooLarge):
            check_json(text, LARGE)

    assert takes_at_most(0.2, check)  # decoding the first takes seconds and 200 MB


def test_text_of_any_depth_is_unreadable_and_not_an_exception() -> None:
    deep = b'{"metadata":{"name":"a"},"spec":' + b"[" * 300_000 + b"]" * 300_000 + b"}"
    decoding = decoding_for(dict)
    for decode, body in (
        (decoding.object, deep),
        (decoding.list, b'{"metadata":{},"items":[%s]}' % deep),
        (decoding.raw_list, b'{"metadata":{},"items":[%s]}' % deep),
        (decoding.event, b'{"type":"ADDED","object":%s}' % deep),
    ):
        with pytest.raises(ResponseInvalid):
            decode(body)
    assert isinstance(error_from_answer(400, deep), BadRequest)


def test_number_of_any_length_is_no_exception() -> None:
    assert version_number("9" * 5000) == 0
    refusal = error_from_answer(429, b'{"details":{"retryAfterSeconds":%s}}' % (b"9" * 400))
    assert isinstance(refusal, TooManyRequests)
