"""Who owns which fields of an object: metadata.managedFields, and how a write changes it.

A write by update or patch takes over what it changes, from everybody. An apply owns what it names; what somebody else
owns and it would change is a conflict, unless it is forced. Somebody who owns nothing any more is not listed.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from kube_simulation.fields import (
    FieldSet,
    applied_fields,
    compare,
    difference,
    intersection,
    paths,
    union,
)
from kube_simulation.merging import merge, prune
from kube_simulation.refusals import FieldCause, Refused
from kube_simulation.requests import ApiRequest
from kube_simulation.schemas import Shape

_OF_THE_SERVER = frozenset(
    {
        "name",
        "namespace",
        "creationTimestamp",
        "selfLink",
        "uid",
        "generation",
        "managedFields",
        "resourceVersion",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
    }
)
Document = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ManagedFieldsEntry:
    """One entry of managedFields."""

    manager: str
    operation: str
    api_version: str
    subresource: str
    time: str
    fields: FieldSet

    @property
    def identity(self) -> tuple[str, str, str, str]:
        """What an entry is told apart by."""
        return self.manager, self.operation, self.api_version, self.subresource

    @property
    def described(self) -> str:
        """The owner as a conflict names it."""
        subresource = f' with subresource "{self.subresource}"' if self.subresource else ""
        version = "" if self.operation == "Apply" else f" using {self.api_version}"
        return f'"{self.manager}"{subresource}{version}'


def owners_of(metadata: Mapping[str, Any]) -> list[ManagedFieldsEntry]:
    """Return the owners that an object names."""
    return [
        ManagedFieldsEntry(
            manager=entry.get("manager", ""),
            operation=entry.get("operation", "Update"),
            api_version=entry.get("apiVersion", ""),
            subresource=entry.get("subresource", ""),
            time=entry.get("time", ""),
            fields=entry.get("fieldsV1") or {},
        )
        for entry in metadata.get("managedFields") or ()
    ]


def as_managed_fields(owners: Iterable[ManagedFieldsEntry]) -> list[Document]:
    """Return owners as an object names them, in the order of Kubernetes."""
    ordered = sorted(
        owners, key=lambda each: (each.operation, each.time, each.manager, each.api_version, each.subresource)
    )
    return [
        {
            "manager": owner.manager,
            "operation": owner.operation,
            "apiVersion": owner.api_version,
            "time": owner.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": owner.fields,
            **({"subresource": owner.subresource} if owner.subresource else {}),
        }
        for owner in ordered
    ]


def owned(document: Document) -> Document:
    """Return the part of an object that can be owned."""
    part = {key: value for key, value in document.items() if key not in {"apiVersion", "kind", "metadata"}}
    metadata = {key: value for key, value in document["metadata"].items() if key not in _OF_THE_SERVER}
    if metadata:
        part["metadata"] = metadata
    return part


def after_update(
    owners: list[ManagedFieldsEntry],
    before: Document,
    after: Document,
    shape: Shape,
    request: ApiRequest,
    api_version: str,
    now: str,
) -> list[ManagedFieldsEntry]:
    """Return the owners after a write that is no apply: what it changed is the writer's."""
    found = compare(owned(before), owned(after), shape)
    if not found:
        return owners
    taken = union(found.added, found.modified)
    writer = ManagedFieldsEntry(request.manager, "Update", api_version, request.subresource, now, {})
    kept: list[ManagedFieldsEntry] = []
    for owner in owners:
        if owner.identity == writer.identity:
            writer = replace(writer, fields=owner.fields, time=owner.time)
        else:
            kept.append(replace(owner, fields=difference(difference(owner.fields, taken), found.removed)))
    fields = union(difference(writer.fields, found.removed), taken)
    if fields != writer.fields:
        writer = replace(writer, fields=fields, time=now)
    return [owner for owner in (*kept, writer) if owner.fields]


def after_apply(
    owners: list[ManagedFieldsEntry],
    before: Document,
    applied: Document,
    shape: Shape,
    request: ApiRequest,
    api_version: str,
    now: str,
) -> tuple[Document, list[ManagedFieldsEntry]]:
    """Return the object with what is applied, and its owners after that. Raises Refused for a conflict."""
    named = applied_fields(applied, shape)
    writer = ManagedFieldsEntry(request.manager, "Apply", api_version, request.subresource, now, named)
    last: ManagedFieldsEntry | None = None
    others: list[ManagedFieldsEntry] = []
    for owner in owners:
        if owner.identity == writer.identity:
            last = owner
        else:
            others.append(owner)
    merged = merge(before, applied, shape)
    if last is not None and last.fields == named:
        writer = last
    elif last is not None:
        everybodys = named
        for owner in others:
            everybodys = union(everybodys, owner.fields)
        merged = prune(merged, last.fields, everybodys, shape)
    found = compare(before, merged, shape)
    if found:
        others = _taken_over(others, union(found.added, found.modified), found.removed, request)
    return merged, [owner for owner in (*others, writer) if owner.fields]


def _taken_over(
    others: list[ManagedFieldsEntry], changed: FieldSet, removed: FieldSet, request: ApiRequest
) -> list[ManagedFieldsEntry]:
    conflicts = [(owner, intersection(owner.fields, changed)) for owner in others]
    if request.query.get("force") not in {"true", "1"}:
        refuse_conflicts([(owner, fields) for owner, fields in conflicts if fields])
    return [replace(owner, fields=difference(difference(owner.fields, fields), removed)) for owner, fields in conflicts]


def refuse_conflicts(conflicts: list[tuple[ManagedFieldsEntry, FieldSet]]) -> None:
    """Raise Refused where there are conflicts."""
    if not conflicts:
        return
    named = [(owner.described, list(paths(fields))) for owner, fields in conflicts]
    causes = [
        FieldCause("FieldManagerConflict", f"conflict with {described}", path)
        for described, fields in named
        for path in fields
    ]
    if len(causes) == 1:
        message = f"Apply failed with 1 conflict: {causes[0].message}: {causes[0].field}"
    else:
        listed = "\n".join(
            f"conflict{'s' if len(fields) > 1 else ''} with {described}:"
            + (f" {fields[0]}" if len(fields) == 1 else "".join(f"\n- {path}" for path in fields))
            for described, fields in named
        )
        message = f"Apply failed with {len(causes)} conflicts: {listed}"
    raise Refused(409, "Conflict", message, {"causes": [cause.as_json() for cause in causes]})
