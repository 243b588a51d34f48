"""Requests of the API server for validation: what is malformed is refused as such, and objects get a verdict."""

from collections.abc import Iterator, MutableMapping
from typing import Any

import httpx
import msgspec
import pytest

from kube_runtime.admission.review import MAX_REVIEW_BYTES
from lifecycle_manager.admission import create_app, validator_for
from lifecycle_manager_api import ModuleTemplate, SyncResource, as_document
from tests import builders


async def post(body: bytes, resource: str = "syncresources") -> httpx.Response:
    app = create_app({"syncresources": validator_for(SyncResource, lambda _: "too many objects")})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://kcp") as client:
        return await client.post(f"/validate/{resource}", content=body)


LONG_NAME = msgspec.json.encode({"request": {"uid": "1", "name": "a" * 254}})  # it would be logged


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b"\xff", b'{"request": {}}', b'{"request": {"uid": 5}}', LONG_NAME])
async def test_body_that_is_no_review_is_refused(body: bytes) -> None:
    response = await post(body)
    assert (response.status_code, response.text.startswith("invalid AdmissionReview: ")) == (400, True)


async def test_review_above_the_limit_is_refused() -> None:
    assert (await post(b" " * (MAX_REVIEW_BYTES + 1))).status_code == 413


async def test_resource_without_validation_is_not_found() -> None:
    assert (await post(b"{}", "kymas")).status_code == 404


@pytest.mark.parametrize("depth", [250, 900, 2_000, 10_000])
@pytest.mark.parametrize("field", ["object", "oldObject"])
async def test_object_nested_too_deep_is_not_admitted(depth: int, field: str) -> None:
    app = create_app({"moduletemplates": validator_for(ModuleTemplate)})
    objects = {"object": as_document(builders.template()), "oldObject": as_document(builders.template())}
    objects[field]["spec"]["data"] = "NESTED"
    of_a_server = {
        "kind": {"group": "operator.kyma-project.io", "version": "v1beta2", "kind": "ModuleTemplate"},
        "userInfo": {"username": "team", "groups": ["system:authenticated"], "extra": {"a": ["b"]}},
        "options": {"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1"},
        "dryRun": False,
    }
    review = msgspec.json.encode({"request": {"uid": "u1", "operation": "UPDATE", **of_a_server, **objects}})
    nested = b'{"a":' * depth + b"1" + b"}" * depth
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://kcp") as client:
        response = await client.post("/validate/moduletemplates", content=review.replace(b'"NESTED"', nested))
    answer = response.json()["response"]
    assert (answer["uid"], answer["allowed"]) == ("u1", field == "oldObject")
    assert answer["allowed"] or "nested deeper than 100 levels" in answer["status"]["message"]


async def test_object_is_not_admitted_where_its_validation_fails() -> None:
    def check(_: SyncResource) -> str | None:
        raise ValueError("a value that nobody foresaw")

    app = create_app({"syncresources": validator_for(SyncResource, check, deletion=check)})
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="https://kcp") as client:
        for operation, allowed in (("CREATE", False), ("DELETE", True)):
            item = as_document(builders.sync_resource())
            review = {"uid": "u1", "operation": operation, "object": item, "oldObject": item}
            response = await client.post("/validate/syncresources", content=msgspec.json.encode({"request": review}))
            assert response.json()["response"]["allowed"] == allowed
            assert "nobody foresaw" not in response.text


async def test_path_is_not_repeated_in_the_answer() -> None:
    assert "x" * 10 not in (await post(b"{}", "x" * 10_000)).text


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"metadata": {"name": "one"}, "spec": 5}, "spec"),
        (as_document(builders.sync_resource()), "too many objects"),
    ],
)
async def test_invalid_object_is_answered_with_its_error(item: object, message: str) -> None:
    review = {"request": {"uid": "u1", "operation": "CREATE", "object": item}}
    answer = (await post(msgspec.json.encode(review))).json()["response"]
    assert (answer["uid"], answer["allowed"], answer["status"]["code"]) == ("u1", False, 422)
    assert message in answer["status"]["message"]


async def test_request_that_ends_in_the_middle_is_no_error() -> None:
    sent: list[MutableMapping[str, Any]] = []
    parts: Iterator[MutableMapping[str, Any]] = iter(
        [{"type": "http.request", "body": b"{", "more_body": True}, {"type": "http.disconnect"}]
    )

    async def receive() -> MutableMapping[str, Any]:
        return next(parts)

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/validate/syncresources", "headers": [], "query_string": b""}
    await create_app({"syncresources": validator_for(SyncResource)})(scope, receive, send)
    assert sent[0]["status"] == 400
