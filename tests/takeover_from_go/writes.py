"""What the Go version wrote once it worked again after the way back, step by step; sent again without the program.

The API servers check, merge and prune these writes as they did those of the program. So a field that this version still
owns, a finalizer that it left, or a CRD that refuses what the Go version writes shows without the program too. What the
Go version reads, and makes of it, shows with the program alone.

Recorded is each write that is another one than the last to its object, by subresource and field manager; of a status
that changes several times in a step, the last.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec

from kube_runtime import Client, Resource, dump_yaml, load_documents, load_yaml
from tests.takeover_from_go import recorder
from tests.takeover_from_go.audit import GO, WRITES, AuditLog
from tests.takeover_from_go.recordings import FOLDER, content_of
from tests.takeover_from_go.restored import Contents, filled

Document = dict[str, Any]
Target = tuple[str, ...]
STEPS = FOLDER.parent / "way_back"
METHODS = {"create": "POST", "update": "PUT", "delete": "DELETE", "deletecollection": "DELETE"}
OTHERS = frozenset({"leases", "events"})
PATH = re.compile(
    r"/apis?/(?P<api>(?:[^/]+\.[^/]+/)?v[^/]+|apps/v1)(?:/namespaces/(?P<namespace>[^/]+)(?=/))?"
    r"/(?P<resource>[^/]+)/(?P<name>[^/]+)(?:/(?P<subresource>[^/]+))?"
)


@dataclass(eq=False)
class Writes:
    """The writes of a Go version that runs, in audit logs by the names that clusters have in the recording."""

    logs: Mapping[str, AuditLog]
    _known: dict[Target, str] = field(default_factory=dict)

    def changes(self, texts: Mapping[str, str]) -> list[Document]:
        """Return what was written since the last call. `texts`: what stands for texts of this run."""
        written = (load_yaml(recorder.anonymous(dump_yaml(each), texts)) for each in self._since_the_last_call())
        return without_passing([each for each in written if self._is_change(_target(each), dump_yaml(each))])

    def forget(self, *names: str) -> None:
        """Take what is written next to clusters or objects of these names for a change: they are gone."""
        self._known = {
            target: each
            for target, each in self._known.items()
            if not any(name in "/".join(target[:2]) for name in names)
        }

    def _is_change(self, target: Target, text: str) -> bool:
        """Tell whether a write is another one than the last to its target, since when the object was not deleted."""
        is_deletion = _is_deletion(target)
        for other in [each for each in self._known if each[:2] == target[:2] and _is_deletion(each) != is_deletion]:
            del self._known[other]
        known, self._known[target] = self._known.get(target), text
        return known != text

    def _since_the_last_call(self) -> Iterator[Document]:
        logs = self.logs
        self.logs = {cluster: AuditLog.of(log.cluster) for cluster, log in logs.items()}
        found = [
            (event["requestReceivedTimestamp"], cluster, event)
            for cluster, log in logs.items()
            for event in log.requests(GO)
            if event["verb"] in WRITES
            and event["responseStatus"]["code"] < 300
            and not _is_left_out(event["objectRef"])
        ]
        for _, cluster, event in sorted(found, key=lambda it: it[0]):
            write = {"cluster": cluster, "verb": event["verb"], "path": event["requestURI"]}
            yield {**write, "body": _lasting(event.get("requestObject") or {})}


def without_passing(writes: Sequence[Document]) -> list[Document]:
    """Return writes without each status that is followed by another one of its object."""
    last = {_target(each): number for number, each in enumerate(writes)}
    return [
        each
        for number, each in enumerate(writes)
        if number == last[_target(each)] or not urlsplit(each["path"]).path.endswith("/status")
    ]


def record(step: str, writes: Iterable[Document]) -> None:
    """Write the file of a step."""
    STEPS.mkdir(exist_ok=True)
    _file(step).write_text("---\n".join(map(dump_yaml, writes)))


async def send(
    step: str, clusters: Mapping[str, Client], secrets: Mapping[str, Contents], texts: Mapping[str, str]
) -> None:
    """Send the recorded writes of a step. `texts`: what recorded texts are in this run. Raises ApiError."""
    for write in load_documents(recorder.with_texts(_file(step).read_text(), texts)):
        try:
            await _send(clusters[write["cluster"]], write, secrets[write["cluster"]])
        except Exception as error:
            error.add_note(f"step {step}: {write['verb']} {write['path']} in {write['cluster']}")
            raise


async def _send(client: Client, write: Document, secrets: Contents) -> None:
    path, body = write["path"], write["body"]
    query = parse_qs(urlsplit(path).query)
    manager = query.get("fieldManager", [GO.rstrip("/")])[0]  # else the API server takes the name of the program
    if {"kind", "metadata"} <= body.keys():
        body = filled(body, secrets)
    if write["verb"] == "update":
        live = msgspec.json.decode(await client.raw("GET", urlsplit(path).path))
        body["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"]
    if write["verb"] in METHODS:
        target = path if "fieldManager" in query else f"{path}{'&' if query else '?'}fieldManager={manager}"
        await client.raw(METHODS[write["verb"]], target, body=msgspec.json.encode(body))
        return
    api, namespace, plural, name, subresource = _parts(urlsplit(path).path)
    group, _, version = api.rpartition("/")
    resource = Resource.dynamic(group, version, body.get("kind", ""), plural, namespaced=namespace is not None)
    if "force" in query:
        await client.apply(resource, name, body, namespace, field_manager=manager, subresource=subresource)
    else:
        await client.merge_patch(resource, name, body, namespace, field_manager=manager, subresource=subresource)


def _target(write: Document) -> Target:
    """Return what a write is to: cluster and object, and then how it is written."""
    path = urlsplit(write["path"])
    name = (write["body"].get("metadata") or {}).get("name", "") if write["verb"] == "create" else ""
    return write["cluster"], "/".join(filter(None, (path.path, name))), write["verb"], path.query


def _is_left_out(reference: Document) -> bool:
    """Tell whether a write is nothing of the fleet's: the versions of its CRDs are noted when the Go version starts."""
    of_crds = ("customresourcedefinitions", "status")
    return reference["resource"] in OTHERS or (reference["resource"], reference.get("subresource")) == of_crds


def _is_deletion(target: Target) -> bool:
    return target[2] == "delete"


def _parts(path: str) -> tuple[str, str | None, str, str, str | None]:
    """Return the group with its version, the namespace, the resource, the name and the subresource in a path."""
    found = PATH.fullmatch(path)
    assert found is not None, path
    return found["api"], found["namespace"], found["resource"], found["name"], found["subresource"]


def _lasting(body: Document) -> Document:
    """Return what is written without what is secret, or another one in each run."""
    if "kind" not in body:  # a merge patch
        return body
    if "metadata" not in body:  # options of a deletion, whose preconditions are of this run
        return {key: each for key, each in body.items() if key != "preconditions"}
    status = {key: each for key, each in body.items() if key == "status"}
    return {**content_of(recorder.lasting(body)), **status}


def _file(step: str) -> Path:
    return STEPS / f"{step}.yaml"
