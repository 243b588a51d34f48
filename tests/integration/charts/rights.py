"""The rights that roles grant, and the requests in an audit log that use them."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_runtime import parse_objects


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one kind of resource, for all objects or for some names."""

    group: str
    resource: str
    verb: str
    names: tuple[str, ...] = ()

    def covers(self, needed: "Right") -> bool:
        same = (self.group, self.resource, self.verb) == (needed.group, needed.resource, needed.verb)
        return same and (not self.names or set(needed.names) <= set(self.names))

    def __str__(self) -> str:
        named = f" {'|'.join(self.names)}" if self.names else ""
        return f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}{named}"


def granted_by(roles: str) -> Iterator[Right]:
    for role in parse_objects(roles):
        for rule in role.document["rules"]:
            for group in rule["apiGroups"]:
                for resource in rule["resources"]:
                    for verb in rule["verbs"]:
                        yield Right(group, resource, verb, tuple(rule.get("resourceNames", ())))


@dataclass(frozen=True)
class Request:
    """A request of a ServiceAccount and its status code. `bound` tells whether the ServiceAccount had its roles: the
    removal of a release deletes them before its Pods have ended."""

    user: str
    rights: tuple[Right, ...]
    path: str
    code: int
    bound: bool


def requests_in(audit_log: Path) -> Iterator[Request]:
    """Yield the requests of ServiceAccounts that an API server has answered."""
    unbound: set[str] = set()
    written, _, _ = audit_log.read_text().rpartition("\n")  # the rest is a line that is still being written
    for line in written.splitlines():
        event = json.loads(line)
        # A request without valid credentials has no user name.
        user, target = event["user"].get("username", ""), event.get("objectRef", {})
        if target.get("resource") in {"rolebindings", "clusterrolebindings"}:
            change = unbound.add if event["verb"] == "delete" else unbound.discard
            change(target.get("name", ""))  # a chart creates one, with the name of its ServiceAccount
        elif user.startswith("system:serviceaccount:") and event["stage"] != "RequestReceived":
            code = event.get("responseStatus", {}).get("code", 0)
            path = event["requestURI"].partition("?")[0]
            yield Request(user, tuple(_rights(event, code)), path, code, user.rpartition(":")[2] not in unbound)


def unused(granted: Iterable[Right], user: str, requests: Iterable[Request]) -> set[Right]:
    """Return the rights that a user has and did not use."""
    needed = {right for request in requests if request.user == user for right in request.rights}
    return {right for right in granted if not any(right.covers(each) for each in needed)}


def _rights(event: Mapping[str, Any], code: int) -> Iterator[Right]:
    """Yield the rights that a request needs: an apply of a new object also needs `create`."""
    target = event.get("objectRef")
    if not target:
        return
    resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
    names = (target["name"],) if "name" in target else ()
    yield Right(target.get("apiGroup", ""), resource, event["verb"], names)
    if event["verb"] == "patch" and code == 201:
        yield Right(target.get("apiGroup", ""), resource, "create", names)
