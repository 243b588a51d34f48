"""Create, update, patch, apply and delete: what becomes of an object, step by step as in a real server.

A write decodes what is there, makes the new state, holds it against its kind, settles who owns what, and stores it
unless nothing changed. Nothing here awaits, so each write is done in one piece.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from kube_simulation.bodies import applied_document, decoded, json_object
from kube_simulation.builtin import CRD, NAMESPACE
from kube_simulation.checks import (
    check_identity,
    check_kind,
    check_name,
    check_namespace,
    check_preconditions,
    manager_required,
    refuse_invalid,
    refuse_new_finalizers,
    refuse_unknown,
)
from kube_simulation.completion import completed, counts_as_a_generation, scoped, without
from kube_simulation.kinds import Kind
from kube_simulation.merging import UnfitForApply, check_typed, merge_patch
from kube_simulation.ownership import after_apply, after_update, as_managed_fields, owned, owners_of
from kube_simulation.reading import served_body
from kube_simulation.refusals import (
    FieldCause,
    already_exists,
    bad_request,
    changed_meanwhile,
    forbidden_in_terminating_namespace,
    internal,
    invalid,
    not_found,
    precondition_failed,
    unsupported_media_type,
)
from kube_simulation.requests import Answer, ApiRequest
from kube_simulation.store import Store, Stored

Document = dict[str, Any]
FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
CLEANUP = "customresourcecleanup.apiextensions.k8s.io"
"""The finalizer that holds a CRD until its objects are deleted."""

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_KEPT = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation", "generateName")
_STAYING_FINALIZERS = {"Foreground": FOREGROUND, "Orphan": ORPHAN}


@dataclass(slots=True)
class StoreWriter:
    """Writes to the store of one cluster. `name` makes uids and generated names its own; `clock` is the time."""

    name: str
    store: Store
    clock: Callable[[], datetime]

    def create(self, kind: Kind, request: ApiRequest) -> Answer:
        """Store a new object."""
        document = decoded(request, kind)
        check_kind(document, kind)
        refuse_unknown(document, kind, request)
        if document["metadata"].get("resourceVersion"):
            raise internal("resourceVersion should not be set on objects to be created")
        return self._create(kind, request, document)

    def update(self, kind: Kind, request: ApiRequest) -> Answer:
        """Store an object over the one that is there."""
        document = decoded(request, kind)
        check_kind(document, kind)
        check_name(document["metadata"], request)
        refuse_unknown(document, kind, request)
        version = document["metadata"].get("resourceVersion")
        if kind.creates_on_update and self.store.table(kind.storage).get((request.namespace, request.name)) is None:
            return self._create(kind, request, document)
        stored = self._stored(kind, request)
        if not version and not kind.unconditional:
            cause = FieldCause(
                "FieldValueInvalid", "Invalid value: 0: must be specified for an update", "metadata.resourceVersion"
            )
            raise invalid(replace(kind, kind=kind.plural), request.name, [cause])
        uid = document["metadata"].get("uid")
        before = stored.document()
        if uid and uid != before["metadata"]["uid"]:
            found = before["metadata"]["uid"]
            why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}"
            raise precondition_failed(replace(kind, kind=kind.plural), request.name, why)
        return self._change(kind, request, stored, before, document)

    def patch(self, kind: Kind, request: ApiRequest) -> Answer:
        """Change an object by a JSON merge patch."""
        if request.content_type != "application/merge-patch+json":
            raise unsupported_media_type()
        patch = json_object(request.body)
        stored = self._stored(kind, request)
        before = {**stored.document(), "apiVersion": kind.api_version}
        after = merge_patch(before, patch)
        if not isinstance(after.get("metadata"), dict):
            raise bad_request("metadata is no object")
        check_kind(after, kind)
        check_namespace(after["metadata"], request)
        check_name(after["metadata"], request)
        refuse_unknown(after, kind, request)
        check_identity(before, after, kind, request)
        return self._change(kind, request, stored, before, after)

    def apply(self, kind: Kind, request: ApiRequest) -> Answer:
        """Have the fields of a document as it says, and those gone that its manager applied before."""
        if not request.query.get("fieldManager"):
            raise manager_required()
        document = applied_document(request)
        if "managedFields" in document["metadata"]:
            raise bad_request("metadata.managedFields must be nil")
        if not document.get("kind") or not document.get("apiVersion"):
            raise bad_request("invalid object type: /, Kind=")
        check_kind(document, kind)
        metadata = document["metadata"] = {**document["metadata"]}
        metadata.setdefault("name", request.name)
        check_name(metadata, request)
        check_namespace(metadata, request)
        try:
            check_typed(document, kind.shape)
        except UnfitForApply as why:
            identity = f"{metadata.get('namespace', '')}/{request.name}; {kind.group}/{kind.version}, Kind={kind.kind}"
            raise internal(f"failed to create typed patch object ({identity}): {why}") from None
        stored = self.store.table(kind.storage).get((request.namespace, request.name))
        if stored is None:
            if request.subresource:
                raise not_found(kind, request.name)
            return self._create(kind, request, document)
        return self._apply(kind, request, stored, document)

    def delete(self, kind: Kind, request: ApiRequest) -> Answer:
        """Delete an object, or mark it as being deleted where finalizers hold it."""
        options = json_object(request.body) if request.body else {}
        stored = self._stored(kind, request)
        metadata = stored.document()["metadata"]
        check_preconditions(options.get("preconditions") or {}, metadata, kind, request.name)
        propagation = options.get("propagationPolicy") or request.query.get("propagationPolicy") or ""
        if request.dry_run:
            left = stored if metadata.get("finalizers") else None
        else:
            left = self.mark_deleted(kind, stored, propagation)
        if left is not None:
            return Answer(200, served_body(kind, left))
        details = {"name": stored.name, **({"group": kind.group} if kind.group else {}), "kind": kind.plural}
        status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success"}
        return Answer(200, msgspec.json.encode({**status, "details": {**details, "uid": metadata["uid"]}}))

    def mark_deleted(self, kind: Kind, stored: Stored, propagation: str = "") -> Stored | None:
        """Delete an object; return it if it stays for a while."""
        document = stored.document()
        metadata = document["metadata"]
        if metadata.get("deletionTimestamp"):
            return stored
        finalizers = list(metadata.get("finalizers") or ())
        holding = _STAYING_FINALIZERS.get(propagation)
        if holding and holding not in finalizers:
            finalizers.append(holding)
        if not finalizers and kind is not NAMESPACE and kind is not CRD:
            self.store.write(kind.storage, stored.key, stored.api_version, document, delete=True)
            return None
        metadata["deletionTimestamp"] = self._now()
        if kind is NAMESPACE:
            document["status"] = {**(document.get("status") or {}), "phase": "Terminating"}
        elif kind is CRD:
            finalizers.append(CLEANUP)
        else:
            metadata["deletionGracePeriodSeconds"] = 0
            if metadata.get("generation"):
                metadata["generation"] += 1
        if finalizers:
            metadata["finalizers"] = finalizers
        return self.store.write(kind.storage, stored.key, stored.api_version, document)

    def initial_namespace(self, name: str) -> Document:
        """Return a namespace that is there from the beginning."""
        metadata = {"name": name, "uid": self._uid(), "creationTimestamp": self._now()}
        return {
            "kind": NAMESPACE.kind,
            "apiVersion": NAMESPACE.api_version,
            "metadata": {**metadata, "labels": {"kubernetes.io/metadata.name": name}},
            "spec": {"finalizers": ["kubernetes"]},
            "status": {"phase": "Active"},
        }

    def _create(self, kind: Kind, request: ApiRequest, document: Document) -> Answer:
        metadata = document["metadata"]
        if metadata.get("generateName") and not metadata.get("name"):
            metadata["name"] = self._generated(kind, request.namespace, metadata["generateName"])
        name = metadata.get("name") or ""
        check_namespace(metadata, request)
        self._check_namespace_is_there(kind, request, name)
        if kind.namespaced:
            metadata["namespace"] = request.namespace
        applied = document if request.verb == "apply" else None
        document = {**document, "metadata": {**metadata, "uid": self._uid(), "creationTimestamp": self._now()}}
        for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "generation"):
            document["metadata"].pop(field, None)
        if kind.generation:
            document["metadata"]["generation"] = 1
        if kind.status:
            document.pop("status", None)
        document = completed(document, kind)
        refuse_invalid(document, kind)
        if self.store.table(kind.storage).get((request.namespace, name)) is not None:
            raise already_exists(kind, name)
        nothing: Document = {"metadata": {}}
        if applied is None:
            owners = after_update([], nothing, document, kind.shape, request, kind.api_version, self._now())
        else:
            named = owned(scoped(applied, kind, request))
            _, owners = after_apply([], nothing, named, kind.shape, request, kind.api_version, self._now())
        if owners:
            document["metadata"]["managedFields"] = as_managed_fields(owners)
        if kind is NAMESPACE:
            document |= {"spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
        return self._stored_answer(kind, request, document, 201)

    def _apply(self, kind: Kind, request: ApiRequest, stored: Stored, document: Document) -> Answer:
        before = stored.document()
        check_identity(before, document, kind, request)
        given = document["metadata"].get("resourceVersion")
        if given and given != str(stored.version):
            raise changed_meanwhile(kind, request.name)
        named = owned(scoped(document, kind, request))
        live = owned(before)
        now = self._now()
        owners = owners_of(before["metadata"])
        merged, owners = after_apply(owners, live, named, kind.shape, request, kind.api_version, now)
        after = {**merged, "apiVersion": kind.api_version, "kind": kind.kind}
        after["metadata"] = {**before["metadata"], **merged.get("metadata", {})}
        for key in before["metadata"].keys() - merged.get("metadata", {}).keys():
            if key in live.get("metadata", {}):
                del after["metadata"][key]
        after = completed(after, kind)
        after["metadata"]["managedFields"] = as_managed_fields(owners)
        return self._settle(kind, request, stored, before, after)

    def _change(self, kind: Kind, request: ApiRequest, stored: Stored, before: Document, after: Document) -> Answer:
        """Store a changed object, as far as the request may change it."""
        given = after["metadata"].get("resourceVersion")
        if given and given != str(stored.version):
            raise changed_meanwhile(kind, request.name)
        metadata = {key: value for key, value in after["metadata"].items() if key not in _KEPT}
        metadata |= {key: before["metadata"][key] for key in _KEPT if key in before["metadata"]}
        metadata["name"] = before["metadata"]["name"]
        if "namespace" in before["metadata"]:
            metadata["namespace"] = before["metadata"]["namespace"]
        if request.subresource == "status":
            after = {**before, "status": after["status"]} if "status" in after else without(before, "status")
        else:
            after = {**after, "metadata": metadata}
            if kind.status:
                after = {**after, "status": before["status"]} if "status" in before else without(after, "status")
        after = completed({**after, "apiVersion": kind.api_version}, kind)
        known = owners_of(after["metadata"]) or owners_of(before["metadata"])  # a write may change who owns what
        owners = after_update(known, before, after, kind.shape, request, kind.api_version, self._now())
        after["metadata"] = {**after["metadata"], "managedFields": as_managed_fields(owners)}
        return self._settle(kind, request, stored, before, after)

    def _settle(self, kind: Kind, request: ApiRequest, stored: Stored, before: Document, after: Document) -> Answer:
        """Check a changed object and store it, unless nothing changed or it only waited for its finalizers."""
        refuse_invalid(after, kind)
        refuse_new_finalizers(before, after, kind, request.name)
        after["metadata"]["resourceVersion"] = before["metadata"]["resourceVersion"]
        if not after["metadata"].get("managedFields"):
            after["metadata"].pop("managedFields", None)
        if kind.generation and counts_as_a_generation(before, after, kind):
            after["metadata"]["generation"] = before["metadata"].get("generation", 0) + 1
        if after == {**before, "apiVersion": kind.api_version}:
            return Answer(200, served_body(kind, stored))
        freed = after["metadata"].get("deletionTimestamp") and not after["metadata"].get("finalizers")
        if freed and kind not in {NAMESPACE, CRD} and not request.dry_run:
            self.store.write(kind.storage, stored.key, kind.api_version, before, delete=True)
            after["metadata"]["resourceVersion"] = str(self.store.version)
            return Answer(200, msgspec.json.encode(after))
        return self._stored_answer(kind, request, after, 200)

    def _stored_answer(self, kind: Kind, request: ApiRequest, document: Document, code: int) -> Answer:
        if request.dry_run:
            return Answer(code, msgspec.json.encode(document))
        key = (document["metadata"].get("namespace", ""), document["metadata"]["name"])
        return Answer(code, self.store.write(kind.storage, key, kind.api_version, document).body)

    def _stored(self, kind: Kind, request: ApiRequest) -> Stored:
        stored = self.store.table(kind.storage).get((request.namespace, request.name))
        if stored is None:
            raise not_found(kind, request.name)
        return stored

    def _check_namespace_is_there(self, kind: Kind, request: ApiRequest, name: str) -> None:
        if not kind.namespaced:
            return
        found = self.store.table(NAMESPACE.storage).get(("", request.namespace))
        if found is None:
            raise not_found(NAMESPACE, request.namespace)
        if found.document()["metadata"].get("deletionTimestamp"):
            raise forbidden_in_terminating_namespace(kind, name, request.namespace)

    def _generated(self, kind: Kind, namespace: str, prefix: str) -> str:
        """Return a name that is free. It depends on nothing but what happened in this cluster before."""
        table = self.store.table(kind.storage)
        attempt = 0
        while True:
            number = zlib.crc32(f"{self.name}/{self.store.version}/{attempt}".encode())
            suffix = ""
            for _ in range(5):
                number, letter = divmod(number, len(_LETTERS))
                suffix += _LETTERS[letter]
            if table.get((namespace, prefix + suffix)) is None:
                return prefix + suffix
            attempt += 1

    def _uid(self) -> str:
        return f"{self.store.version + 1:08x}-0000-4000-8000-{zlib.crc32(self.name.encode()):012x}"

    def _now(self) -> str:
        return self.clock().strftime("%Y-%m-%dT%H:%M:%SZ")
