"""Refusals become the exception that is named like them, and what a server says is never trusted."""

import json
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Annotated, Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as some

from kube_runtime import (
    AlreadyExists,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    NotFound,
    NotServed,
    ObjectUnreadable,
    ResponseInvalid,
    ServerUnavailable,
    StatusCause,
    TooManyRequests,
    Unauthorized,
    WatchEvent,
)
from kube_runtime.client.answers import error_from_answer
from kube_runtime.client.decoding import Decoding, UnreadableDeletion


class Metadata(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    namespace: str = ""
    resource_version: str = ""


class Spec(msgspec.Struct, frozen=True):
    size: int
    extra: msgspec.Raw = msgspec.Raw(b"null")
    described: Annotated[msgspec.Raw, msgspec.Meta(extra_json_schema={"x": 1})] = msgspec.Raw(b"null")


class Thing(msgspec.Struct, frozen=True):
    metadata: Metadata
    spec: Spec
    parts: tuple[Spec, ...] = ()
    more: dict[str, msgspec.Raw] = {}


DEEP = {"deep": [1, 2]}
GOOD = {"metadata": {"name": "a", "resourceVersion": "7"}, "spec": {"size": 1, "extra": DEEP, "described": DEEP}}
BAD = {"metadata": {"name": "b", "namespace": "n", "resourceVersion": "8"}, "spec": {"size": "large"}}


def in_http_time(seconds: int) -> str:
    return format_datetime(datetime.now(UTC) + timedelta(seconds=seconds), usegmt=True)


def status(code: int, reason: str, **more: Any) -> bytes:
    return json.dumps({"kind": "Status", "code": code, "reason": reason, "message": "said so"} | more).encode()


@pytest.mark.parametrize(
    ("code", "reason", "kind"),
    [
        (401, "Unauthorized", Unauthorized),
        (403, "Forbidden", Forbidden),
        (409, "Conflict", Conflict),
        (409, "AlreadyExists", AlreadyExists),
        (410, "Expired", Gone),
        (418, "Teapot", ApiError),
        (422, "Invalid", Invalid),
        (429, "TooManyRequests", TooManyRequests),
        (500, "InternalError", ServerUnavailable),
        (503, "ServiceUnavailable", ServerUnavailable),
    ],
)
def test_refusal_becomes_the_exception_of_its_name(code: int, reason: str, kind: type[ApiError]) -> None:
    error = error_from_answer(code, status(code, reason))

    assert isinstance(error, ApiError)
    assert type(error) is kind
    assert (error.status, error.reason, str(error)) == (code, reason, f"said so ({code} {reason})")


@pytest.mark.parametrize("code", [400, 401, 403, 404, 405, 409, 410, 413, 429, 500, 503])
@pytest.mark.parametrize(
    "message",
    [
        'admission webhook "a.example.com" denied the request: configmaps "other" not found',
        "configmaps \"a\" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: log in first",
    ],
)
def test_denial_by_a_webhook_or_policy_is_one_whatever_its_code(code: int, message: str) -> None:
    details = {"name": "other", "kind": "configmaps"}
    for reason in ("AlreadyExists", "NotFound"):
        error = error_from_answer(code, status(code, reason, message=message, details=details))

        assert type(error) is Forbidden
        assert error.is_denied
        assert str(error) == f"{message} ({code} {reason})"


def test_causes_name_the_fields() -> None:
    details = {"causes": [{"reason": "FieldManagerConflict", "message": 'conflict with "a"', "field": ".data.a"}, 7]}
    error = error_from_answer(409, status(409, "Conflict", details=details))

    assert isinstance(error, ApiError)
    assert error.causes == (StatusCause("FieldManagerConflict", 'conflict with "a"', ".data.a"),)


def test_404_that_names_an_object_says_that_it_does_not_exist() -> None:
    assert isinstance(error_from_answer(404, status(404, "NotFound", details={"name": "a", "kind": "pods"})), NotFound)


@pytest.mark.parametrize(
    "body", [b"404 page not found\n", status(404, "NotFound"), status(404, "NotFound", details={})]
)
def test_404_that_names_no_object_says_that_nothing_is_served(body: bytes) -> None:
    error = error_from_answer(404, body)
    assert type(error) is NotServed
    assert not isinstance(error, NotFound)


def test_kind_that_is_not_served_is_said_in_words() -> None:
    error = error_from_answer(404, b"404 page not found\n")
    assert str(error) == "the server could not find the requested resource (404 NotFound)"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1><hr>nginx</body></html>",
        b"default backend - 404",
        b"page not found",
        b"null",
        b"{}",
        b'"404 page not found"',
        b'{"message":"no Route matched with those values"}',
        b'{"kind":"Page","status":"Failure","reason":"NotFound","code":404,"details":{"name":"a"}}',
        b'{"code":404,"reason":"NotFound","message":"pods \\"a\\" not found","details":{"name":"a"}}',
    ],
)
def test_404_of_somebody_else_says_nothing_of_an_object(body: bytes) -> None:
    error = error_from_answer(404, body)
    assert isinstance(error, ResponseInvalid)
    assert "no API server gives" in str(error)


@pytest.mark.parametrize("body", [b"", b"<html>bad gateway</html>", b"\xff\xfe", b"[1]", b'{"code": "x"}'])
def test_answer_that_is_no_status_is_an_error_all_the_same(body: bytes) -> None:
    error = error_from_answer(502, body)

    assert isinstance(error, ServerUnavailable)
    assert error.status == 502


def test_what_a_server_says_is_shortened_and_printable() -> None:
    error = error_from_answer(403, status(403, "Forbidden", message="\x1b[31mred\r\n" + "x" * 1_000_000))

    assert str(error).isprintable()
    assert len(str(error)) < 3_000


@pytest.mark.parametrize("as_header", [str, lambda seconds: f"{seconds}.0", in_http_time])
def test_pause_that_the_server_asks_for_is_known(as_header: Callable[[int], str]) -> None:
    error = error_from_answer(429, status(429, "TooManyRequests"), as_header(700))

    assert isinstance(error, TooManyRequests)
    assert error.retry_after is not None
    assert 600 <= error.retry_after <= 701


@pytest.mark.parametrize("number", ["1", "9" * 20, "9" * 5_000])
def test_date_that_no_calendar_has_asks_for_no_pause(number: str) -> None:
    for date in (f"{number} Jan 2020 00:00:00", f"01 Jan {number} 00:00:00", f"01 Jan 2020 00:00:00 +{number}", ""):
        error = error_from_answer(429, status(429, "TooManyRequests"), date)

        assert isinstance(error, TooManyRequests)
        assert not error.retry_after


def test_pause_in_the_details_counts_where_no_header_says_it() -> None:
    error = error_from_answer(503, status(503, "ServiceUnavailable", details={"retryAfterSeconds": 3}), "soon")

    assert isinstance(error, ServerUnavailable)
    assert error.retry_after == 3


def test_object_is_decoded_and_lets_go_of_the_answer() -> None:
    body = json.dumps({**GOOD, "parts": [GOOD["spec"]], "more": {"a": [1]}}).encode()
    before = sys.getrefcount(body)

    thing = Decoding(Thing).object(body)

    for raw in (thing.spec.extra, thing.parts[0].extra, thing.spec.described):
        assert bytes(raw) == b'{"deep": [1, 2]}'
    assert bytes(thing.more["a"]) == b"[1]"
    assert sys.getrefcount(body) == before, "a view of the answer keeps all of it"


def test_list_tells_of_what_it_can_not_read_and_goes_on() -> None:
    body = json.dumps({"metadata": {"resourceVersion": "9", "continue": "c"}, "items": [GOOD, BAD, GOOD]}).encode()
    unreadable: list[ObjectUnreadable] = []

    page = Decoding(Thing).readable_part(body, unreadable.append)

    assert [item.metadata.name for item in page.items] == ["a", "a"]
    assert (page.resource_version, page.continue_token) == ("9", "c")
    assert [error.identity for error in unreadable] == [("n", "b", "8")]
    with pytest.raises(ResponseInvalid):
        Decoding(Thing).list(body)


def test_empty_list_may_be_null() -> None:
    assert Decoding(Thing).list(b'{"metadata": {"resourceVersion": "1"}, "items": null}').items == ()


def test_bookmark_has_a_version() -> None:
    line = {"type": "BOOKMARK", "object": {"metadata": {"resourceVersion": "5"}}}

    for text in (json.dumps(line), json.dumps(line, separators=(",", ":"))):
        assert Decoding(Thing).event(text.encode()) == WatchEvent("BOOKMARK", None, "5")


def test_error_in_a_watch_is_raised_as_what_it_is() -> None:
    line = json.dumps({"type": "ERROR", "object": json.loads(status(410, "Expired"))}, separators=(",", ":"))

    with pytest.raises(Gone):
        Decoding(Thing).event(line.encode())


def test_change_of_an_unreadable_object_differs_from_garbage() -> None:
    decoding = Decoding(Thing)

    with pytest.raises(ObjectUnreadable) as changed:
        decoding.event(json.dumps({"type": "MODIFIED", "object": BAD}).encode())
    assert changed.value.identity == ("n", "b", "8")
    with pytest.raises(UnreadableDeletion):
        decoding.event(json.dumps({"type": "DELETED", "object": BAD}).encode())
    for garbage in (b"garbage", b"{}", b'{"type": "MODIFIED", "object": {}}', b'{"type": "MODIFIED"}', b"\xff"):
        with pytest.raises(ResponseInvalid) as refused:
            decoding.event(garbage)
        assert not isinstance(refused.value, ObjectUnreadable)


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"metadata": None},
        {"metadata": {}},
        {"metadata": {"name": ["x"]}},
        {"metadata": {"name": "x", "namespace": 7}},
    ],
)
def test_dict_without_a_name_is_no_object(item: dict[str, Any]) -> None:
    with pytest.raises(ResponseInvalid, match="it has no name"):
        Decoding(dict).event(json.dumps({"type": "ADDED", "object": item}).encode())
    with pytest.raises(ResponseInvalid, match="it has no name"):
        Decoding(dict).list(json.dumps({"metadata": {}, "items": [item]}).encode())


@given(some.binary(max_size=100))
def test_any_line_is_an_event_or_refused(line: bytes) -> None:
    with suppress(ResponseInvalid, ApiError):
        Decoding(Thing).event(line)


@pytest.mark.parametrize(
    "metadata",
    [
        {"resourceVersion": 8},
        {"labels": ["a"]},
        {"annotations": {"a": {}}},
        {"finalizers": "a"},
        {"managedFields": ["a"]},
        {"ownerReferences": {}},
        {"deletionTimestamp": True},
    ],
    ids=str,
)
def test_untyped_object_has_the_metadata_of_every_kind(metadata: dict[str, Any]) -> None:
    decoding: Decoding[dict[str, Any]] = Decoding(dict)
    broken = {"metadata": {"name": "b", "namespace": "n", **metadata}}
    with pytest.raises(ObjectUnreadable, match="n/b is not what its kind promises"):
        decoding.object(msgspec.json.encode(broken))
    with pytest.raises(ResponseInvalid):
        decoding.list(msgspec.json.encode({"metadata": {}, "items": [broken]}))
    with pytest.raises(UnreadableDeletion):
        decoding.event(msgspec.json.encode({"type": "DELETED", "object": broken}))
    reported: list[ObjectUnreadable] = []
    readable = {"metadata": {"name": "a", "namespace": "n"}}
    page = decoding.readable_part(msgspec.json.encode({"metadata": {}, "items": [broken, readable]}), reported.append)
    assert [each["metadata"]["name"] for each in page.items] == ["a"]
    assert [each.identity[:2] for each in reported] == [("n", "b")]


def test_answer_to_a_dry_run_has_an_empty_version() -> None:
    decoding: Decoding[dict[str, Any]] = Decoding(dict)
    found = decoding.object(b'{"metadata":{"name":"a"}}')
    assert found["metadata"] == {"name": "a", "resourceVersion": "", "uid": ""}
