"""What a cluster says about the kinds that it serves."""

from collections.abc import Iterable
from typing import Any

import msgspec

from kube_simulation.kinds import Kind
from kube_simulation.requests import Answer

_VERBS = ["create", "delete", "get", "list", "patch", "update", "watch"]
_VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.0", "platform": "simulated/any"}


def discovery(segments: tuple[str, ...], kinds: Iterable[Kind]) -> Answer | None:
    """Return the answer for a path above the resources, None where there is nothing."""
    if segments == ("version",):
        return _answer(_VERSION)
    if segments in {("healthz",), ("livez",), ("readyz",)}:
        return Answer(200, b"ok", content_type="text/plain")
    if segments == ("api",):
        return _answer({"kind": "APIVersions", "versions": ["v1"]})
    if segments == ("apis",):
        return _answer({"kind": "APIGroupList", "apiVersion": "v1", "groups": list(_groups(kinds).values())})
    if len(segments) == 2 and segments[0] == "apis":
        group = _groups(kinds).get(segments[1])
        return None if group is None else _answer({"kind": "APIGroup", "apiVersion": "v1", **group})
    return _resources(segments, kinds)


def _resources(segments: tuple[str, ...], kinds: Iterable[Kind]) -> Answer | None:
    if len(segments) == 2 and segments[0] == "api":
        group, version = "", segments[1]
    elif len(segments) == 3 and segments[0] == "apis":
        group, version = segments[1:]
    else:
        return None
    found = [kind for kind in kinds if (kind.group, kind.version) == (group, version)]
    if not found:
        return None
    resources = [each for kind in found for each in _entries(kind)]
    group_version = f"{group}/{version}" if group else version
    head = {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": group_version}
    return _answer({**head, "resources": resources})


def _entries(kind: Kind) -> list[dict[str, Any]]:
    own: dict[str, Any] = {
        "name": kind.plural,
        "singularName": kind.singular,
        "namespaced": kind.namespaced,
        "kind": kind.kind,
        "verbs": _VERBS,
    }
    if kind.short_names:
        own["shortNames"] = list(kind.short_names)
    below = [*(["status"] if kind.status else []), *kind.subresources]
    common = {"singularName": "", "namespaced": kind.namespaced, "kind": kind.kind}
    verbs = {"status": ["get", "patch", "update"]}
    return [
        own,
        *({"name": f"{kind.plural}/{each}", **common, "verbs": verbs.get(each, ["create"])} for each in below),
    ]


def _groups(kinds: Iterable[Kind]) -> dict[str, dict[str, Any]]:
    groups: dict[str, dict[str, Any]] = {}
    for kind in kinds:
        if not kind.group:
            continue
        served = {"groupVersion": kind.api_version, "version": kind.version}
        group = groups.setdefault(kind.group, {"name": kind.group, "versions": [], "preferredVersion": served})
        if served not in group["versions"]:
            group["versions"].append(served)
    return groups


def _answer(document: dict[str, Any]) -> Answer:
    return Answer(200, msgspec.json.encode(document))
