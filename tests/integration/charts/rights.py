"""The rights that roles grant, and the requests in an audit log that use them."""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_runtime import parse_objects


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one kind of resource. An empty namespace is for all of them and for none, an empty name for all."""

    group: str
    resource: str
    verb: str
    namespace: str = ""
    name: str = ""

    def covers(self, needed: "Right") -> bool:
        same = (self.group, self.resource, self.verb) == (needed.group, needed.resource, needed.verb)
        return same and self.namespace in ("", needed.namespace) and self.name in ("", needed.name)

    def __str__(self) -> str:
        kind = f"{self.verb} {self.resource}{'.' if self.group else ''}{self.group}"
        return f"{kind}{f' {self.name}' if self.name else ''}{f' in {self.namespace}' if self.namespace else ''}"


def granted_by(roles: str, *, bound_in: str = "") -> frozenset[Right]:
    """Return the rights of roles; ClusterRoles are bound in a namespace where one is given."""
    return frozenset(
        Right(group, resource, verb, role.document["metadata"].get("namespace", bound_in), name)
        for role in parse_objects(roles)
        for rule in role.document["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", ("",))
    )


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


def used_by(user: str, requests: Iterable[Request]) -> frozenset[Right]:
    return frozenset(right for request in requests if request.user == user for right in request.rights)


def unused(granted: Iterable[Right], used: Iterable[Right]) -> set[Right]:
    known = tuple(used)
    return {right for right in granted if not any(right.covers(each) for each in known)}


def wider_than_used(granted: Iterable[Right], used: Iterable[Right]) -> dict[Right, str]:
    """Return the rights for all namespaces that are used in one alone, each with that namespace."""
    namespaces: dict[Right, set[str]] = defaultdict(set)
    for needed in used:
        for right in granted:
            if not right.namespace and right.covers(needed):
                namespaces[right].add(needed.namespace)
    return {right: only for right, (only, *more) in namespaces.items() if only and not more}


def _rights(event: Mapping[str, Any], code: int) -> Iterator[Right]:
    """Yield the rights that a request needs: an apply of a new object also needs `create`."""
    target = event.get("objectRef")
    if not target:
        return
    resource = "/".join(part for part in (target["resource"], target.get("subresource")) if part)
    # A Namespace is named as the namespace of itself, so that a Role in it may allow to read it.
    is_of_itself = resource.partition("/")[0] == "namespaces" and event["verb"] != "get"
    namespace = "" if is_of_itself else target.get("namespace", "")
    needed = Right(target.get("apiGroup", ""), resource, event["verb"], namespace, target.get("name", ""))
    yield needed
    if event["verb"] == "patch" and code == 201:
        yield Right(needed.group, resource, "create", namespace, needed.name)
