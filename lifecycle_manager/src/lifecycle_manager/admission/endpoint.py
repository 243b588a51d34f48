"""The HTTP endpoint that the API server of the control plane asks."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import structlog
from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import Response

from lifecycle_manager.admission.review import AdmissionRequest, ReviewMalformed, answer, decode_review
from lifecycle_manager.serving import BodyTooLarge, read_body
from lifecycle_manager_api import ApiObject, NotDecodable, decode

T = TypeVar("T", bound=ApiObject)
Objection = Callable[[T], str | None]
"""Says what is wrong with an object; None where nothing is."""
Warnings = Callable[[T], Sequence[str]]
"""Says what whoever writes an object should know, though nothing is wrong with it."""


class Verdict(NamedTuple):
    """What is to be said of an object: what is wrong with it, and what to warn of."""

    objection: str | None = None
    warnings: Sequence[str] = ()


Validator = Callable[[bytes], Verdict]
"""Judges the JSON of an object."""

LARGEST_REVIEW = 8 * 1024 * 1024  # two objects of the largest size that etcd takes, escaped

log = structlog.get_logger("admission")


def validator_for(
    kind: type[T], objection: Objection[T] = lambda _: None, warnings: Warnings[T] = lambda _: ()
) -> Validator:
    """Return a validator that decodes an object and asks what is wrong with it."""

    def validate(body: bytes) -> Verdict:
        try:
            thing = decode(kind, body)
        except NotDecodable as error:
            return Verdict(str(error))
        found = objection(thing)
        return Verdict(found) if found is not None else Verdict(warnings=warnings(thing))

    return validate


def create_app(validators: Mapping[str, Validator]) -> FastAPI:
    """Return the application. `validators` are by the plural of the resource, which is the last part of the path."""
    app = FastAPI(title="Lifecycle Manager admission", docs_url=None, redoc_url=None, openapi_url=None)

    async def validate(request: Request) -> Response:
        resource = request.path_params["resource"]
        validator = validators.get(resource)
        if validator is None:
            return _said(404, f"there is no validation of {resource}")
        try:
            review = decode_review(await read_body(request, LARGEST_REVIEW))
        except ReviewMalformed as error:
            return _said(400, str(error))
        except BodyTooLarge as error:
            return _said(413, str(error))
        verdict = validator(bytes(review.object))
        if verdict.objection is not None:
            _log_refusal(resource, review, verdict.objection)
        return Response(answer(review.uid, verdict.objection, verdict.warnings), media_type="application/json")

    app.add_route("/validate/{resource}", validate, methods=["POST"])
    return app


def _said(code: int, text: str) -> Response:
    return Response(f"{text}\n", code, media_type="text/plain")


def _log_refusal(resource: str, review: AdmissionRequest, objection: str) -> None:
    log.info(
        "object refused",
        resource=resource,
        namespace=review.namespace,
        name=review.name,
        operation=review.operation,
        objection=objection,
    )
