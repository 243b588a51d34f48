"""Everything that can go wrong between a controller and a cluster.

KubeError
├── ClusterUnreachable       no response: no connection, no TLS session, a timeout, or a silent watch
├── ResponseInvalid          a response that the API does not promise: undecodable, too large, redirecting
│   ├── ResponseTooLarge     more bytes or values, or nested deeper, than the caller accepts
│   └── ObjectUnreadable     a proper response with an object that does not fit its type
├── ApiError                 the API server refused the request
│   ├── BadRequest           400
│   ├── Unauthorized         401
│   ├── Forbidden            403, and any code by which a webhook or policy denies a request, other than 422
│   ├── NotFound             404, there is no such object
│   ├── NotServed            404, the server serves nothing at this path
│   │   └── KindUnknown      it serves no such kind, in this version or with this scope
│   ├── MethodNotAllowed     405
│   ├── Conflict             409, somebody else wrote first or owns a field
│   ├── AlreadyExists        409, on create
│   ├── Gone                 410, a resource version or page that the server no longer knows
│   ├── RequestTooLarge      413, and 500 of a server whose etcd stores no object of this size
│   ├── Invalid              422, with a cause for each field; 500 for a document that does not fit its schema
│   ├── TooManyRequests      429
│   └── ServerUnavailable    500 and above
├── AddressInvalid           no object of an API server has this name, or this name without a namespace
├── KubeconfigInvalid        no usable kubeconfig
├── KubeconfigRefused        a usable kubeconfig that the policy does not allow
└── ManifestInvalid          a YAML text that holds no proper Kubernetes objects

TerminalError                raised by a reconcile: a retry would not help
TriggerMistaken              a function of a controller or an operator takes something else than it gets
AddressUnusable              an address of the program itself is in use, or is none of this machine
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

E = TypeVar("E", bound=BaseException)


DENIED = re.compile(r"\bdenied (?:the )?request\b|\b(?:exceeded|failed) quota: |because it is being terminated")
"""In refusals of a webhook, policy, quota or dying namespace. The code of a webhook is any that its author chose."""
MAX_MESSAGE_LENGTH = 1_000
MAX_CAUSES, MAX_CAUSE_LENGTH = 200, 2_000


def _cut(text: str) -> str:
    """Return a text without the middle of one that is too long: a value stands there, and what is wrong at the end."""
    half = MAX_CAUSE_LENGTH // 2
    return text if len(text) <= MAX_CAUSE_LENGTH else f"{text[:half]} … {text[-half:]}"


class KubeError(Exception):
    """The base of all errors about a cluster."""


class AddressUnusable(OSError):
    """Nothing can be served at an address, as another program does so or the machine does not have it."""


class TriggerMistaken(TypeError):
    """A function takes something else than it gets, such as an object where a trigger gets a change of one."""


class ClusterUnreachable(KubeError):
    """The API server did not respond. Whether a write under way took effect is unknown."""


class ResponseInvalid(KubeError):
    """The response is not one of the Kubernetes API."""


class ResponseTooLarge(ResponseInvalid):
    """The response exceeds a limit of its reader; nothing of it was decoded."""


class ObjectUnreadable(ResponseInvalid):
    """An object exists and does not fit the type that it is decoded as."""

    def __init__(self, namespace: str, name: str, resource_version: str, why: str) -> None:
        where = f"{namespace}/{name}" if namespace else name
        super().__init__(f"{where} is not what its kind promises: {_shortened(why)}")
        self.identity = (namespace, name, resource_version)


@dataclass(frozen=True, slots=True)
class StatusCause:
    """One of the reasons for a refusal: which field, and what about it."""

    reason: str
    message: str
    field: str


class ApiError(KubeError):
    """The API server refused. `reason` is Kubernetes' machine-readable one, `message` is for people."""

    def __init__(self, status: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.reason = reason
        self.message = message
        self.details: Mapping[str, Any] = details or {}

    @property
    def causes(self) -> tuple[StatusCause, ...]:
        """The single reasons, where the server gives them; none of what no server gives, such as thousands."""
        listed = self.details.get("causes")
        if not isinstance(listed, Sequence) or isinstance(listed, str) or len(listed) > MAX_CAUSES:
            return ()
        return tuple(
            StatusCause(*(_cut(str(each.get(key, ""))) for key in ("reason", "message", "field")))
            for each in listed
            if isinstance(each, Mapping)
        )

    def __str__(self) -> str:
        return f"{self.message} ({self.status} {self.reason})"


class BadRequest(ApiError):
    """The request makes no sense to the server."""


class Unauthorized(ApiError):
    """The server does not know who is asking."""


class Forbidden(ApiError):
    """The server knows who is asking, and they may not, or nobody may."""

    @property
    def is_denied(self) -> bool:
        """Whether a webhook, policy, quota or dying namespace refused the request, and no right is missing."""
        return DENIED.search(self.message) is not None


class NotFound(ApiError):
    """The server states that there is no such object, or no such namespace to create one in."""


class NotServed(ApiError):
    """The server serves nothing at this path. It says nothing about objects: they may be served in another version."""


class KindUnknown(NotServed):
    """The API server serves no such kind (yet): its objects may be served in another version, or with another scope."""

    def __init__(self, api_version: str, kind: str, why: str = "") -> None:
        message = f"the cluster does not know the kind {_shortened(kind)} of {_shortened(api_version)}{why}"
        super().__init__(404, "KindUnknown", message)
        self.api_version = api_version
        self.kind = kind

    def __str__(self) -> str:
        return self.message


class MethodNotAllowed(ApiError):
    """The resource has no such verb."""


class Conflict(ApiError):
    """Somebody else wrote in between, or owns a field that the apply wants to set; `causes` says whose."""


class AlreadyExists(ApiError):
    """An object of that name is there already."""


class Gone(ApiError):
    """The resource version or continue token is too old: list again."""


class RequestTooLarge(ApiError):
    """The object is larger than the server takes, or than its etcd stores."""


class Invalid(ApiError):
    """The object breaks a rule or does not fit its schema; `causes` names the fields, if the server does."""


class TooManyRequests(ApiError):
    """The server is busy; `retry_after` is the number of seconds it asks for, if it says."""

    retry_after: float | None = None


class ServerUnavailable(ApiError):
    """The server failed or is not ready; `retry_after` is the number of seconds it asks for, if it says."""

    retry_after: float | None = None


class AddressInvalid(KubeError, ValueError):
    """No object has this address: a name that no API server stores, or a namespaced object without a namespace."""


class KubeconfigInvalid(KubeError):
    """There is no kubeconfig, or it lacks what a connection needs."""


class KubeconfigRefused(KubeError):
    """The kubeconfig asks for something that the policy forbids."""


class ManifestInvalid(KubeError):
    """A YAML text holds no proper Kubernetes objects. `document_index` counts from 0; None: the text as a whole."""

    def __init__(self, document_index: int | None, message: str) -> None:
        where = "" if document_index is None else f"document {document_index}: "
        message = _shortened(message)
        super().__init__(f"{where}{message}")
        self.document_index = document_index
        self.message = message


def without_frames(error: E) -> E:
    """Return an exception to be kept, without its tracebacks and those of its causes.

    Their frames hold answers of servers, of up to 64 MiB each. Mostly one of them also refers to the exception, so that
    they would stay until the next full collection of garbage, or for ever where that freezes them.
    """
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        each = waiting.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        each.__traceback__ = None
        waiting += (each.__cause__, each.__context__)
        if isinstance(each, BaseExceptionGroup):
            waiting += each.exceptions
    return error


def _shortened(message: str) -> str:
    """Return a message that quotes keys and values of a text as it may be logged."""
    return message if len(message) <= MAX_MESSAGE_LENGTH else f"{message[:MAX_MESSAGE_LENGTH]}…"


class TerminalError(Exception):
    """Raised by a reconcile where no retry will help, only a change of the object."""
