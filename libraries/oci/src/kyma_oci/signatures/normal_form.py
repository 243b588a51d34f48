"""The normal form of a component descriptor by `jsonNormalisation/v4alpha1`: the bytes that are hashed and signed.

It leaves out what changes on the way of a component from registry to registry: where its content is (`access`), where
the component was (`repositoryContexts`), its signatures, and labels that are not marked with `signing`. The rest is
written as canonical JSON (RFC 8785). Fields that the schema v2 does not have are left out, as are nulls of objects.

As in OCM's own code, all labels of references to other components count. The version of a label counts for the program
in Go, and does not for other signers: so there are two forms of a descriptor with such labels.

A document that could be read in two ways has none: with a key twice, or with a field beside those of the schema v2.
"""

import json
from collections import Counter
from typing import Any

import msgspec
import rfc8785

from kyma_oci.problems import UNREADABLE

NONE_ACCESS = ("none", "None")
"""Types of access of a resource without content, whose digest does not count. What stands there may be any value."""
MAX_BYTES = 1024 * 1024
"""Of a descriptor that can be signed. Those of modules have a few kB."""


class Label(msgspec.Struct, frozen=True):
    name: str = ""
    version: str | None = None
    value: Any = None
    signing: bool = False


class Digest(msgspec.Struct, frozen=True, rename="camel"):
    hash_algorithm: str = ""
    normalisation_algorithm: str = ""
    value: str = ""


class Unverified(Exception):
    """Nothing proves who vouches for a descriptor or for its content; the message says what is missing or wrong."""


class _Element(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    name: str = ""
    version: str = ""
    labels: list[Label] | None = None
    extra_identity: dict[str, str] | None = None


class _Resource(_Element, frozen=True, rename="camel", kw_only=True):
    type: str = ""
    relation: str = ""
    access: dict[str, Any] | None = None
    digest: Digest | None = None


class _Source(_Element, frozen=True, rename="camel", kw_only=True):
    type: str = ""


class _Reference(_Element, frozen=True, rename="camel", kw_only=True):
    component_name: str = ""
    digest: Digest = Digest()


class _Provider(msgspec.Struct, frozen=True):
    name: str = ""
    labels: list[Label] | None = None


class _Component(msgspec.Struct, frozen=True, rename="camel"):
    name: str
    version: str
    provider: str
    labels: list[Label] | None = None
    creation_time: str = ""
    resources: list[_Resource] | None = None
    sources: list[_Source] | None = None
    component_references: list[_Reference] | None = None


class _Descriptor(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    component: _Component
    meta: Any = None
    signatures: Any = None
    nested_digests: Any = None


def normal_form(descriptor: bytes, *, label_versions: bool = True) -> bytes:
    """Return the normal form of a descriptor of the schema v2, given as JSON. Raises Unverified."""
    if len(descriptor) > MAX_BYTES:
        raise Unverified(f"the descriptor has more than {MAX_BYTES} bytes")
    try:
        component = msgspec.json.decode(descriptor, type=_Descriptor).component
        json.loads(descriptor, object_pairs_hook=_with_each_key_once)
        content = _component(component)
        if not label_versions:
            _drop_label_versions(content)
        return rfc8785.dumps({"component": content})
    except UNREADABLE as error:
        raise Unverified(f"the descriptor has no normal form; it needs the schema v2: {error}") from None
    except (rfc8785.CanonicalizationError, OverflowError, ValueError) as error:
        raise Unverified(f"the descriptor has no normal form: {error}") from None


def _drop_label_versions(content: dict[str, Any]) -> None:
    elements = (*content["resources"], *content["sources"], *content["componentReferences"])
    for part in (content, content["provider"], *elements):
        for label in part.get("labels", ()):
            label.pop("version", None)


def _with_each_key_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        repeated, _ = Counter(key for key, _ in pairs).most_common(1)[0]
        raise Unverified(f"the descriptor has the key {repeated[:64]!r} twice")
    return found


def _component(component: _Component) -> dict[str, Any]:
    return {
        "name": component.name,
        "version": component.version,
        "provider": _provider(component.provider),
        **_present(labels=_signed_labels(component.labels), creationTime=component.creation_time),
        "resources": [_resource(each) for each in component.resources or ()],
        "sources": [_element(each) | {"type": each.type} for each in component.sources or ()],
        "componentReferences": [_reference(each) for each in component.component_references or ()],
    }


def _provider(text: str) -> dict[str, Any]:
    """Return the provider as an object: it is its name, or JSON with name and labels."""
    provider = _Provider(text)
    if text.strip().startswith("{"):
        provider = msgspec.json.decode(text, type=_Provider)
    if not provider.name:
        raise Unverified("the descriptor has no normal form: its component has no provider")
    return {"name": provider.name, **_present(labels=_signed_labels(provider.labels))}


def _resource(resource: _Resource) -> dict[str, Any]:
    has_content = (resource.access or {}).get("type") not in NONE_ACCESS
    digest = _digest(resource.digest) if resource.digest is not None and has_content else None
    return _element(resource) | {"type": resource.type, "relation": resource.relation} | _present(digest=digest)


def _reference(reference: _Reference) -> dict[str, Any]:
    """Return a reference to another component. None of its labels is left out."""
    labels = [_label(each) for each in reference.labels or ()]
    own = {"componentName": reference.component_name, "digest": _digest(reference.digest)}
    return _element(reference) | own | _present(labels=labels)


def _element(element: _Element) -> dict[str, Any]:
    shown = _present(labels=_signed_labels(element.labels), extraIdentity=element.extra_identity)
    return {"name": element.name, "version": element.version, **shown}


def _digest(digest: Digest) -> dict[str, Any]:
    return {
        "hashAlgorithm": digest.hash_algorithm,
        "normalisationAlgorithm": digest.normalisation_algorithm,
        "value": digest.value,
    }


def _signed_labels(labels: list[Label] | None) -> list[dict[str, Any]]:
    return [_label(each) for each in labels or () if each.signing]


def _label(label: Label) -> dict[str, Any]:
    value = {} if label.value is None else {"value": _plain(label.value)}
    return {"name": label.name, **value, **_present(version=label.version, signing=label.signing)}


def _plain(value: Any) -> Any:
    """Return a value with every number as a float, and without the nulls of objects; those of lists stay."""
    match value:
        case dict():
            return {key: _plain(each) for key, each in value.items() if each is not None}
        case list():
            return [_plain(each) for each in value]
        case int() if not isinstance(value, bool):
            return float(value)
        case _:
            return value


def _present(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}
