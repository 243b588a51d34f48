"""A request to a simulated cluster, with what it addresses, and the answer to it."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import unquote, unquote_plus

import msgspec

from kube_simulation.kinds import Kind
from kube_simulation.refusals import Refused

WRITES = frozenset({"create", "update", "patch", "apply", "delete", "deletecollection"})
_APPLY = "application/apply-patch+yaml"


class ConnectionDropped(Exception):
    """The connection is closed without an answer, or in the middle of one."""


@dataclass(slots=True)
class ApiRequest:
    """What a client asks of a cluster. `kind` is None where the path is not of a kind that is served."""

    cluster: str
    method: str
    path: str
    query: Mapping[str, str]
    body: bytes = b""
    content_type: str = ""
    user_agent: str = ""
    segments: tuple[str, ...] = ()
    kind: Kind | None = None
    namespace: str = ""
    name: str = ""
    subresource: str = ""
    until: int | None = field(default=None, repr=False)
    """The version at which the cluster is read, None for the newest."""

    @property
    def verb(self) -> str:
        """The verb as RBAC names it, with `apply` for a patch that is one."""
        if self.method == "GET":
            if self.query.get("watch") in {"true", "1"}:
                return "watch"
            return "get" if self.name else "list"
        if self.method == "PATCH":
            return "apply" if self.content_type == _APPLY else "patch"
        if self.method == "DELETE":
            return "delete" if self.name else "deletecollection"
        return {"POST": "create", "PUT": "update"}.get(self.method, self.method.lower())

    @property
    def is_write(self) -> bool:
        """Tell whether it changes something, dry runs excepted."""
        return self.method != "GET" and "dryRun" not in self.query

    @property
    def manager(self) -> str:
        """Who is named as the owner of what is written."""
        return self.query.get("fieldManager") or self.user_agent.partition("/")[0] or "unknown"

    @property
    def dry_run(self) -> bool:
        """Tell whether nothing is to be stored."""
        return "dryRun" in self.query


@dataclass(slots=True)
class Answer:
    """What the server says: a code and a body, or the lines of a watch until it ends."""

    code: int
    body: bytes = b""
    watch: AsyncIterator[bytes] | None = None
    retry_after_seconds: int | None = None
    content_type: str = "application/json"

    @classmethod
    def refusing(cls, refused: Refused) -> "Answer":
        """Return a refusal as an answer."""
        return cls(refused.code, refused.body(), retry_after_seconds=refused.retry_after_seconds)

    def document(self) -> dict[str, Any]:
        """Return the body, decoded."""
        document: dict[str, Any] = msgspec.json.decode(self.body)
        return document


@dataclass(frozen=True, slots=True)
class Address:
    """What a path means: a resource of a group and version, and an object of it or all."""

    group: str
    version: str
    plural: str = ""
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def request_of(
    cluster: str, method: str, target: str, body: bytes = b"", content_type: str = "", user_agent: str = ""
) -> ApiRequest:
    """Return the request for a method and a target, which is path and query within the cluster."""
    path, _, query = target.partition("?")
    segments = tuple(unquote(each) if "%" in each else each for each in path.split("/") if each)
    return ApiRequest(
        cluster=cluster,
        method=method,
        path=path,
        query=_parameters(query) if query else {},
        body=body,
        content_type=content_type.partition(";")[0].strip(),
        user_agent=user_agent,
        segments=segments,
    )


def _parameters(query: str) -> dict[str, str]:
    found = {}
    for part in query.split("&"):
        name, _, value = part.partition("=")
        found[name] = unquote_plus(value) if "%" in value or "+" in value else value
    return found


def address_of(segments: tuple[str, ...]) -> Address | None:
    """Return what a path means, None where it is not below a version of a group."""
    if segments[:1] == ("api",) and len(segments) >= 2:
        group, version, rest = "", segments[1], segments[2:]
    elif segments[:1] == ("apis",) and len(segments) >= 3:
        group, version, rest = segments[1], segments[2], segments[3:]
    else:
        return None
    namespace = ""
    if len(rest) >= 3 and rest[0] == "namespaces" and rest[2] not in {"status", "finalize"}:
        namespace, rest = rest[1], rest[2:]
    if len(rest) > 3:
        return None
    plural, name, subresource = (*rest, "", "", "")[:3]
    return Address(group, version, plural, namespace, name, subresource)
