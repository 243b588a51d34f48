"""Why the API server refuses an object, in a sentence for people, and which refusals forbid a change.

The server quotes whole values, as Go prints them, of hundreds of characters: the field and the reason are enough.
"""

import re
from collections.abc import Mapping
from typing import Any

from kube_runtime.apply.objects import InventoryEntry
from kube_runtime.client.outgrown import OF_LIVE_OBJECT
from kube_runtime.exceptions import ApiError, Conflict, Invalid, StatusCause
from kube_runtime.resource import JsonObject

_UNCHANGEABLE = re.compile(
    r"immutable|cannot change|may not be changed|may not change|cannot be changed|can not be changed|"
    r"updates to .* are forbidden",
    re.IGNORECASE,
)
_VALUE = re.compile(r"^(?:Invalid value|Unsupported value|Duplicate value|Too long|Too many): ")
_QUOTED = re.compile(r'^(?:"(?:[^"\\]|\\.)*"|[^\s{\["]+|\{.*\}|\[.*\]): (?=\S)', re.DOTALL)
_MAX_QUOTED = 80
_SIZE, _SMALLER = "spec.resources.requests.storage", "can not be less than"
_CONVERSION = re.compile(
    r"conversion webhook for (?P<version>[^,\s]+), Kind=(?P<kind>[^,\s]+) failed: (?P<why>.+)", re.DOTALL
)
_CONTENT = re.compile(
    r"^failed to (?:create typed (?:patch|live) object|convert new object) \(.*?\)(?: to proper version)?: "
)
_SEVERAL, _NEXT_FIELD = "errors:", re.compile(r"\s+(?=\.)")
_GO_VALUE = re.compile(r"&(?:value\.valueUnstructured)?\{(?:Value:)?(.*)\}")


def explained(error: Exception) -> str:
    """Return why an object was refused."""
    if not isinstance(error, ApiError):
        return str(error)
    if (failure := conversion_failure(error)) is not None:
        return failure
    if isinstance(error, Conflict) and error.causes:
        return "; ".join(f"{cause.field}: {cause.message}" for cause in error.causes)
    if isinstance(error, Invalid):
        if error.causes:
            return "; ".join(dict.fromkeys(_cause(each) for each in error.causes))
        return _of_content(error.message)
    return str(error)


def conversion_failure(error: Exception) -> str | None:
    """Return that the conversion webhook of a CRD fails, where an API server has refused a request for that."""
    found = _CONVERSION.search(error.message) if isinstance(error, ApiError) else None
    if found is None:
        return None
    crd = f"the CRD of {found['kind']} ({found['version'].partition('/')[0]})"
    return f"the conversion webhook of {crd} fails, so no object of that kind can be read: {found['why']}"


def immutable_fields(error: Invalid) -> tuple[str, ...]:
    """Return the fields that may not be changed, where nothing else is wrong with an object; none otherwise.

    An admission policy names none: what it refuses to change is not to be deleted instead.
    """
    if not error.causes or not all(each.field and _UNCHANGEABLE.search(each.message) for each in error.causes):
        return ()
    return tuple(dict.fromkeys(each.field for each in error.causes))


def is_shrunk(entry: InventoryEntry, error: Invalid) -> bool:
    """Tell whether a claim is refused for nothing but a size that is less than that of its volume."""
    is_claim, causes = (entry.group, entry.kind) == ("", "PersistentVolumeClaim"), error.causes
    return is_claim and bool(causes) and all(each.field == _SIZE and _SMALLER in each.message for each in causes)


def expanded(claim: Mapping[str, Any], live: JsonObject) -> JsonObject:
    """Return a claim with the size that somebody has given it: a volume can't be shrunk."""
    spec = claim["spec"]
    requests = {**spec["resources"]["requests"], "storage": live["spec"]["resources"]["requests"]["storage"]}
    return {**claim, "spec": {**spec, "resources": {**spec["resources"], "requests": requests}}}


def _cause(cause: StatusCause) -> str:
    """Return one cause without a value that is longer than its reason."""
    message = " ".join(cause.message.partition("\n@@")[0].split())
    if (named := _VALUE.match(message)) is not None:
        rest = message[named.end() :]
        quoted = _QUOTED.match(rest)
        if quoted is not None and (len(quoted[0]) > _MAX_QUOTED or quoted[0][0] in "{["):
            message = rest[quoted.end() :]
    return f"{cause.field}: {message}" if cause.field else message


def _of_content(message: str) -> str:
    """Return what is wrong with a document that does not fit its schema, or with an object that does not any more."""
    if (found := _CONTENT.match(message)) is None:
        return message
    rest = message[found.end() :].rpartition("error decoding from json: ")[2]
    fields = _NEXT_FIELD.split(rest.removeprefix(_SEVERAL)) if rest.startswith(_SEVERAL) else [rest]
    what = "; ".join(_of_field(each) for each in fields if each)
    is_live = message.startswith(OF_LIVE_OBJECT)
    return f"the object in the cluster does not fit the schema of its kind: {what}" if is_live else what


def _of_field(text: str) -> str:
    return _GO_VALUE.sub(r"\1", text).removeprefix(".")
