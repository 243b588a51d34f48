"""What the server refuses, as Kubernetes words it: a Status with code, reason, message and causes.

Clients decide by code, reason and causes and show the message to people, so all of it follows the real server.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kube_simulation.kinds import Kind


@dataclass(frozen=True, slots=True)
class FieldCause:
    """One field that is refused, and why."""

    reason: str
    message: str
    field: str

    def __str__(self) -> str:
        return f"{self.field}: {self.message}"

    def as_json(self) -> dict[str, str]:
        """Return the cause as it stands in a Status."""
        return {"reason": self.reason, "message": self.message, "field": self.field}


class Refused(Exception):
    """The server's answer to a request is a refusal."""

    def __init__(
        self,
        code: int,
        reason: str,
        message: str,
        details: dict[str, Any] | None = None,
        *,
        retry_after_seconds: int | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = details
        self.retry_after_seconds = retry_after_seconds
        if retry_after_seconds is not None:
            self.details = {**(details or {}), "retryAfterSeconds": retry_after_seconds}

    def body(self) -> bytes:
        """Return the Status document."""
        status: dict[str, Any] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure"}
        status["message"] = self.message
        if self.reason:
            status["reason"] = self.reason
        if self.details is not None:
            status["details"] = self.details
        status["code"] = self.code
        return msgspec.json.encode(status)


def not_found(kind: Kind, name: str) -> Refused:
    """Refuse: there is no such object."""
    return Refused(404, "NotFound", f'{kind.plural_name} "{name}" not found', _of_resource(kind, name))


def unknown_path() -> Refused:
    """Refuse: nothing is served there."""
    return Refused(404, "NotFound", "the server could not find the requested resource", {})


def method_not_allowed() -> Refused:
    """Refuse: what is served there does not have this verb."""
    return Refused(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", {})


def unsupported_media_type() -> Refused:
    """Refuse: a patch of a type that is not served."""
    return Refused(415, "UnsupportedMediaType", "415: Unsupported Media Type", {})


def too_large(most: int) -> Refused:
    """Refuse: the body is longer than so many bytes."""
    return Refused(413, "RequestEntityTooLarge", f"Request entity too large: limit is {most}")


def bad_request(message: str) -> Refused:
    """Refuse: the request can't be understood."""
    return Refused(400, "BadRequest", message)


def internal(message: str) -> Refused:
    """Refuse with 500, which Kubernetes does for some requests that are wrong."""
    return Refused(500, "", message)


def already_exists(kind: Kind, name: str) -> Refused:
    """Refuse: an object of that name is there."""
    return Refused(409, "AlreadyExists", f'{kind.plural_name} "{name}" already exists', _of_resource(kind, name))


def changed_meanwhile(kind: Kind, name: str) -> Refused:
    """Refuse: the resource version is not the newest."""
    message = (
        f'Operation cannot be fulfilled on {kind.plural_name} "{name}": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    return Refused(409, "Conflict", message, _of_resource(kind, name))


def precondition_failed(kind: Kind, name: str, why: str) -> Refused:
    """Refuse: what a delete takes for granted is not so."""
    message = f'Operation cannot be fulfilled on {kind.kind_name} "{name}": {why}'
    return Refused(409, "Conflict", message, _of_kind(kind, name))


def invalid(kind: Kind, name: str, causes: Sequence[FieldCause]) -> Refused:
    """Refuse: fields of the object are not what the kind allows."""
    texts = list(dict.fromkeys(map(str, causes)))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    details = _of_kind(kind, name)
    details["causes"] = [cause.as_json() for cause in causes]
    return Refused(422, "Invalid", f'{kind.kind_name} "{name}" is invalid: {listed}', details)


def forbidden_in_terminating_namespace(kind: Kind, name: str, namespace: str) -> Refused:
    """Refuse: nothing new comes into a namespace that is being deleted."""
    message = (
        f'{kind.plural_name} "{name}" is forbidden: unable to create new content in namespace {namespace} '
        "because it is being terminated"
    )
    cause = FieldCause("NamespaceTerminating", f"namespace {namespace} is being terminated", "metadata.namespace")
    return Refused(403, "Forbidden", message, {**_of_resource(kind, name), "causes": [cause.as_json()]})


def gone(message: str) -> Refused:
    """Refuse: the resource version or the page is no longer known."""
    return Refused(410, "Expired", message)


def version_too_large(asked: int, current: int) -> Refused:
    """Refuse: the resource version is of the future."""
    message = f"Timeout: Too large resource version: {asked}, current: {current}"
    causes = [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}]
    return Refused(504, "Timeout", message, {"causes": causes}, retry_after_seconds=1)


def _of_resource(kind: Kind, name: str) -> dict[str, Any]:
    return {"name": name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}


def _of_kind(kind: Kind, name: str) -> dict[str, Any]:
    named = {"name": name} if name else {}
    return {**named, **({"group": kind.group} if kind.group else {}), "kind": kind.kind}
