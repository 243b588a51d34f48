"""The HTTP endpoint of the validating webhooks, by AdmissionReviews (admission.k8s.io/v1).

Whoever reaches the port may send requests, unless a client certificate is required: so all bodies together are bounded,
and texts in objects are parsed outside the event loop.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

import msgspec
import structlog
from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from kube_runtime import UNDECODABLE, parse_aside, require_readable
from kube_runtime.admission.review import (
    MAX_BYTES,
    MAX_BYTES_PER_ADDRESS,
    MAX_ERROR_LENGTH,
    MAX_REVIEW_BYTES,
    ReviewedObject,
    answer,
    review_of,
)
from kube_runtime.byte_budget import ByteBudget, TooManyBytes
from lifecycle_manager.process.serving import BodyTooLarge, read_body
from lifecycle_manager_api import ApiObject, NotDecodable, decode

T = TypeVar("T", bound=ApiObject)
Check = Callable[[T], str | None]
"""Returns the error of an object, None where it is valid."""
Warnings = Callable[[T], Sequence[str]]
"""Returns the warnings about a valid object."""


class ReviewResult(NamedTuple):
    """The result of a validation: an error, or warnings."""

    error: str | None = None
    warnings: Sequence[str] = ()


Validator = Callable[[ReviewedObject], Awaitable[ReviewResult]]
"""Validates the object of a request."""

UNFORESEEN = "it can't be validated: the log of Lifecycle Manager says why"
log = structlog.get_logger("admission")


def validator_for(
    kind: type[T],
    check: Check[T] = lambda _: None,
    warnings: Warnings[T] = lambda _: (),
    *,
    deletion: Check[T] = lambda _: None,
    in_thread: bool = False,
) -> Validator:
    """Return a validator that decodes an object and checks it; that of a large one in a thread if `check` allows it.

    `deletion` checks an object that is to be deleted.
    """

    async def validate(request: ReviewedObject) -> ReviewResult:
        body = bytes(request.old_object if request.is_deletion else request.object)
        try:
            require_readable(body)
            msgspec.json.decode(body)  # also the fields that are of no type here: the checks decode them
            decoded = decode(kind, body)
        except (NotDecodable, *UNDECODABLE) as failure:
            return ReviewResult(None if request.is_deletion else str(failure))
        if request.is_deletion:
            return ReviewResult(deletion(decoded))
        error = await parse_aside(len(body) if in_thread else 0, check, decoded)
        return ReviewResult(error) if error is not None else ReviewResult(warnings=warnings(decoded))

    return validate


def create_app(validators: Mapping[str, Validator]) -> FastAPI:
    """Return the application. `validators` are by the plural of the resource, which is the last part of the path."""
    app = FastAPI(title="Lifecycle Manager admission", docs_url=None, redoc_url=None, openapi_url=None)
    budget = ByteBudget(MAX_BYTES, MAX_BYTES_PER_ADDRESS)

    async def validate(request: Request) -> Response:
        resource = request.path_params["resource"]
        validator = validators.get(resource)
        if validator is None:
            return _text(404, "no validation for this resource")
        with budget.share(request.client.host if request.client is not None else "") as take:
            try:
                review = review_of(await read_body(request, MAX_REVIEW_BYTES, take))
            except (ValueError, IndexError, RecursionError) as error:
                return _text(400, f"invalid AdmissionReview: {error}")
            except BodyTooLarge as error:
                return _text(413, str(error))
            except TooManyBytes as error:
                return _text(503, str(error))
            except ClientDisconnect:
                return _text(400, "the connection ended within the body")
            try:
                verdict = await validator(review)
            except Exception:
                log.exception("validation failed", resource=resource, namespace=review.namespace, name=review.name)
                verdict = ReviewResult(None if review.is_deletion else UNFORESEEN)
        why = verdict.error and verdict.error[:MAX_ERROR_LENGTH]
        if why is not None:
            _log_refusal(resource, review, why)
        return Response(answer(review.uid, why, verdict.warnings), media_type="application/json")

    app.add_route("/validate/{resource}", validate, methods=["POST"])
    return app


def _text(code: int, text: str) -> Response:
    return Response(f"{text}\n", code, media_type="text/plain")


def _log_refusal(resource: str, review: ReviewedObject, error: str) -> None:
    log.info(
        "object refused",
        resource=resource,
        namespace=review.namespace,
        name=review.name,
        operation=review.operation,
        error=error,
    )
