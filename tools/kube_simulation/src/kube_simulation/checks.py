"""What a write is refused for, besides the schema of its kind: it is of another kind, name or revision than it says."""

from dataclasses import replace
from typing import Any

from kube_simulation.builtin import CRD, NAMESPACE
from kube_simulation.kinds import Kind
from kube_simulation.refusals import FieldCause, Refused, bad_request, invalid, precondition_failed
from kube_simulation.requests import ApiRequest
from kube_simulation.schemas import METADATA
from kube_simulation.validation import metadata_causes, schema_causes, unknown_fields

Document = dict[str, Any]


def check_kind(document: Document, kind: Kind) -> None:
    if document["apiVersion"] != kind.api_version:
        message = f"({document['apiVersion']}) does not match the expected API version ({kind.api_version})"
        raise bad_request(f"the API version in the data {message}")
    if document["kind"] != kind.kind:
        name = document["metadata"].get("name") or ""
        cause = FieldCause("FieldValueInvalid", f'Invalid value: "{document["kind"]}": must be {kind.kind}', "kind")
        raise invalid(replace(kind, kind=document["kind"]), name, [cause])


def check_name(metadata: Document, request: ApiRequest) -> None:
    name = metadata.get("name")
    if name != request.name:
        raise bad_request(f"the name of the object ({name}) does not match the name on the URL ({request.name})")


def check_namespace(metadata: Document, request: ApiRequest) -> None:
    """Refuse another namespace than that of the path. Where the path has none, the object loses the one it names."""
    if not request.namespace:
        metadata.pop("namespace", None)
    if metadata.get("namespace") and metadata["namespace"] != request.namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")


def check_identity(before: Document, after: Document, kind: Kind, request: ApiRequest) -> None:
    """Refuse another uid than the one that is there, or another time in which it is deleted."""
    uid = after["metadata"].get("uid")
    if uid and uid != before["metadata"]["uid"]:
        cause = FieldCause("FieldValueInvalid", f'Invalid value: "{uid}": field is immutable', "metadata.uid")
        raise invalid(kind, request.name, [cause, cause])
    seconds = after["metadata"].get("deletionGracePeriodSeconds")
    if seconds is not None and seconds != before["metadata"].get("deletionGracePeriodSeconds"):
        message, field = f"Invalid value: {seconds}: field is immutable", "metadata.deletionGracePeriodSeconds"
        raise invalid(kind, request.name, [FieldCause("FieldValueInvalid", message, field)])


def refuse_unknown(document: Document, kind: Kind, request: ApiRequest) -> None:
    if request.query.get("fieldValidation") != "Strict":
        return
    unknown = list(unknown_fields(document, kind.shape))
    if unknown:
        message = ", ".join(f'unknown field "{field}"' for field in (sorted(unknown) if kind.custom else unknown))
        raise bad_request(_cannot_be_handled(kind, f"strict decoding error: {message}"))


def _cannot_be_handled(kind: Kind, why: str) -> str:
    return f'{kind.kind} in version "{kind.version}" cannot be handled as a {kind.kind}: {why}'


def refuse_invalid(document: Document, kind: Kind) -> None:
    metadata = document["metadata"]
    unreadable = list(schema_causes(metadata, METADATA, "metadata"))
    if unreadable:
        raise bad_request(_cannot_be_handled(kind, unreadable[0].message))
    name_is_free = kind.group == "rbac.authorization.k8s.io"
    causes = metadata_causes(
        metadata, name_is_label=kind is NAMESPACE, name_is_free=name_is_free, is_custom=kind.custom
    )
    if kind is CRD:
        causes += _crd_causes(document)
    wrong = list(schema_causes(document, kind.shape))
    if wrong and not kind.custom:  # a real server fails to decode it
        raise bad_request(_cannot_be_handled(kind, wrong[0].message))
    causes += wrong
    if causes:
        raise invalid(kind, metadata.get("name") or "", causes)


def _crd_causes(crd: Document) -> list[FieldCause]:
    spec = crd.get("spec") or {}
    plural, group = (spec.get("names") or {}).get("plural"), spec.get("group")
    if crd["metadata"]["name"] == f"{plural}.{group}":
        return []
    message = f'Invalid value: "{crd["metadata"]["name"]}": must be spec.names.plural+"."+spec.group'
    return [FieldCause("FieldValueInvalid", message, "metadata.name")]


def refuse_new_finalizers(before: Document, after: Document, kind: Kind, name: str) -> None:
    if not before["metadata"].get("deletionTimestamp"):
        return
    known = set(before["metadata"].get("finalizers") or ())
    added = [each for each in after["metadata"].get("finalizers") or () if each not in known]
    if added:
        listed = ", ".join(f'"{each}"' for each in added)
        message = (
            "Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers "
            f"[]string{{{listed}}}"
        )
        raise invalid(kind, name, [FieldCause("FieldValueForbidden", message, "metadata.finalizers")] * 2)


def check_preconditions(preconditions: Document, metadata: Document, kind: Kind, name: str) -> None:
    uid, version = preconditions.get("uid"), preconditions.get("resourceVersion")
    if uid and uid != metadata["uid"]:
        why = (
            f"the UID in the precondition ({uid}) does not match the UID in record ({metadata['uid']}). "
            "The object might have been deleted and then recreated"
        )
        raise precondition_failed(kind, name, why)
    if version and version != metadata["resourceVersion"]:
        why = (
            f"the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record "
            f"({metadata['resourceVersion']}). The object might have been modified"
        )
        raise precondition_failed(kind, name, why)


def manager_required() -> Refused:
    cause = FieldCause("FieldValueRequired", "Required value: is required for apply patch", "fieldManager")
    details = {"group": "meta.k8s.io", "kind": "PatchOptions", "causes": [cause.as_json()]}
    return Refused(422, "Invalid", f'PatchOptions.meta.k8s.io "" is invalid: {cause}', details)
