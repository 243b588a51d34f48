"""Component descriptors as somebody without a key would write them: with the normal form of a signed one, if possible.

What a descriptor with this normal form installs has to be what the signed one installs, from whatever place.
"""

import random
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from kyma_oci import Component
from kyma_oci.descriptor import OCI_REGISTRY_CRED
from kyma_oci.signatures.content import signed_component
from kyma_oci.signatures.normal_form import normal_form
from tests.attack.grammar import hostile_json

SIGNED = Path("tests/unit/oci/signed_by_ocm/guestbook-pss.json")
EVIL = f"sha256:{'6' * 64}"
_TWICE = "\N{INVISIBLE SEPARATOR}"
Document = dict[str, Any]


def installable() -> Document:
    """Return a descriptor with all that is needed to install it, but for a signature."""
    document: Document = msgspec.json.decode(SIGNED.read_bytes())
    layer, image = document["component"]["resources"]
    by_digest = image["digest"]["value"]
    label = {"name": OCI_REGISTRY_CRED, "value": {"registry": "guestbook"}, "signing": True}
    layer["labels"] = [label]
    sidecar = image | {"name": f"sidecar-{by_digest[:8]}", "version": f"0.0.0-main+sha256.{by_digest[:12]}"}
    reference = f"registry.example.org/deep/sidecar:main@sha256:{by_digest}"
    sidecar["access"] = {"type": "ociArtifact", "imageReference": reference}
    document["component"]["resources"] = [layer, image | {"name": "guestbook"}, sidecar]
    return document


def installed_by(component: Component) -> tuple[object, ...]:
    """Return what a component installs, without the places from which it is fetched."""
    images = tuple(each.rpartition("/")[2] for each in component.images)
    return (
        component.name,
        component.version,
        component.layers,
        component.credentials,
        component.archives,
        images,
    )


def check_descriptor(sample: bytes) -> bool:
    """Tell whether a descriptor has the normal form of the signed one, and installs something.

    Raises Unverified, and AssertionError where that is something else.
    """
    form, expected = _signed()
    if normal_form(sample) != form:
        return False
    assert installed_by(signed_component(sample)) == expected, "something else than what was signed is installed"
    return True


@cache
def _signed() -> tuple[bytes, tuple[object, ...]]:
    good = msgspec.json.encode(installable())
    return normal_form(good), installed_by(signed_component(good))


def hostile_descriptor(draw: random.Random) -> bytes:
    """Return a descriptor after some changes by somebody without a key."""
    document = installable()
    for _ in range(draw.randint(1, 4)):
        draw.choice(_CHANGES)(document, draw)
    if draw.random() < 0.2:
        return hostile_json(document, draw)
    return msgspec.json.encode(document).replace(_TWICE.encode(), b"")


def _second_schema(document: Document, draw: random.Random) -> None:
    resources = [_resource(draw) for _ in range(draw.randint(0, 2))]
    component = document.get("component", {})
    document["apiVersion"] = draw.choice(("ocm.software/v3alpha1", "ocm.software/v2", "", None, 3))
    document["kind"] = "ComponentVersion"
    document["metadata"] = {"name": component.get("name"), "version": draw.choice((component.get("version"), "9.9.9"))}
    document["spec"] = draw.choice(({"resources": resources}, component | {"resources": resources}, resources, None))
    if draw.random() < 0.2:
        document["repositoryContexts"] = [{"baseUrl": "evil.example.org"}]


def _another_document(document: Document, draw: random.Random) -> None:
    """Put a component beside the signed one, under a name that some parser takes for it."""
    name = draw.choice(("Component", "COMPONENT", "component ", "components", f"component{_TWICE}"))
    document[name] = document["component"] | {"resources": [_resource(draw)]}


def _access(document: Document, draw: random.Random) -> None:
    draw.choice(document["component"]["resources"])["access"] = _any_access(draw)


def _labels(document: Document, draw: random.Random) -> None:
    labels = draw.choice(document["component"]["resources"]).setdefault("labels", [])
    name = draw.choice((OCI_REGISTRY_CRED, "scan", ""))
    value = draw.choice(({"registry": "of-another"}, "text", None, 7))
    labels.insert(draw.randint(0, len(labels)), {"name": name, "value": value, "signing": draw.random() < 0.2})


def _contexts(document: Document, draw: random.Random) -> None:
    context = {"type": "OCIRegistry", "baseUrl": draw.choice(("evil.example.org", "", None, 7, "http://localhost"))}
    context["subPath"], context["componentNameMapping"] = (
        draw.choice(("", "../..", 7)),
        draw.choice(("sha256-digest", "")),
    )
    document["component"]["repositoryContexts"] = draw.choice(([context], [], [context, 7], [7]))


def _resources(document: Document, draw: random.Random) -> None:
    resources = document["component"]["resources"]
    match draw.randrange(4):
        case 0:
            resources.insert(draw.randint(0, len(resources)), _resource(draw))
        case 1:
            draw.shuffle(resources)
        case 2:
            first, last = resources[0], resources[-1]
            first["access"], last["access"] = last["access"], first["access"]
        case _:
            document["component"][f"resources{_TWICE}"] = [_resource(draw)]


def _digest(document: Document, draw: random.Random) -> None:
    each = draw.choice(document["component"]["resources"])
    each["digest"] = draw.choice((None, {}, dict(each.get("digest") or {}) | {"value": "6" * 64}))


def _unknown_field(document: Document, draw: random.Random) -> None:
    where = draw.choice((document, document["component"], draw.choice(document["component"]["resources"])))
    where[draw.choice(("unknown", "srcRefs", "spec", "meta", "nestedDigests", f"name{_TWICE}"))] = draw.choice(
        (None, [], {}, "text", {"schemaVersion": "v3alpha1"})
    )


def _resource(draw: random.Random) -> Document:
    name = draw.choice(("raw-manifest", "config", "guestbook"))
    digest = {"hashAlgorithm": "SHA-256", "normalisationAlgorithm": "genericBlobDigest/v1", "value": "6" * 64}
    return {"name": name, "version": "1.2.0", "type": "ociImage", "access": _any_access(draw), "digest": digest}


def _any_access(draw: random.Random) -> Any:
    image = draw.choice(("guestbook:1.2.0", "sidecar:main", "guestbook", "other:1.2.0", "guestbook:1.2.0@" + EVIL, ""))
    layer = draw.choice((EVIL, f"sha256:{'1' * 64}", f"sha256:{'2' * 64}", "", None))
    access = {"type": draw.choice(("localBlob", "ociArtifact", "ociBlob", "none", "None", "", None))}
    if draw.random() < 0.5:
        access |= {"imageReference": draw.choice(("evil.example.org/", "a/b/", "")) + image}
    if draw.random() < 0.5:
        access |= {draw.choice(("localReference", "digest")): layer}
    media_type = draw.choice(("application/x-tar", "text/plain", 7))
    return draw.choice((access, access, access | {"mediaType": media_type}, None, "text", []))


_CHANGES: tuple[Callable[[Document, random.Random], None], ...] = (
    _second_schema,
    _another_document,
    _access,
    _labels,
    _contexts,
    _resources,
    _digest,
    _unknown_field,
)
