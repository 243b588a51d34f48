"""The Pods that an object of any kind describes, found by their structure wherever they are. Pure functions.

A controller that runs Pods for its own kind takes them in a form of its own: a template, a list of containers under
any name, one container alone. Where the fields are those of a Pod they count as a Pod, whatever the kind is called.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from lifecycle_manager_api.pod_security import Document, PodTemplate, mapping, mappings, pod_template_of

OPAQUE = frozenset({("", "ConfigMap"), ("", "Secret"), ("apiextensions.k8s.io", "CustomResourceDefinition")})
"""Kinds whose content is data or a schema, and describes no Pod."""

NamedValue = tuple[str, Any]
"""Something in an object, and its name."""

_CONTAINER_LISTS = ("initContainers", "containers", "ephemeralContainers")
_POD_FIELDS = frozenset(
    {
        "hostIPC",
        "hostNetwork",
        "hostPID",
        "imagePullSecrets",
        "securityContext",
        "serviceAccount",
        "serviceAccountName",
        "volumes",
    }
)
_OF_CONTAINERS_ALONE = frozenset({"allowPrivilegeEscalation", "capabilities", "privileged", "procMount"})
"""Fields of a securityContext that a Pod's own has not."""
_HANDLERS = frozenset({"livenessProbe", "readinessProbe", "startupProbe", "lifecycle"})
_BESIDE_IMAGE = _HANDLERS | {"args", "command", "env", "envFrom", "ports", "securityContext", "source", "volumeMounts"}
_FOLDERS = frozenset({"hostPath", "gitRepo"})
_TEXT = re.compile(
    r"\b(containers|hostIPC|hostNetwork|hostPID|hostPath|initContainers|privileged|securityContext|secretKeyRef"
    r"|secretName|serviceAccountName)[\"']?\s*:",
    re.IGNORECASE,
)
_ESCAPED = re.compile(r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U000([0-9a-fA-F]{5}))")
_EXACT = frozenset({*_CONTAINER_LISTS, *_POD_FIELDS, *_OF_CONTAINERS_ALONE, *_FOLDERS})
_FIELDS = {each.lower(): each for each in _EXACT}


def pods_of(group: str, kind: str, document: Document) -> tuple[PodTemplate, ...]:
    """Return the Pods that an object is, or has a template of, or describes in a form of its kind."""
    if (pod := pod_template_of(group, kind, document)) is not None:
        return (pod,)
    return () if (group, kind) in OPAQUE else tuple(_pods_in(document))


def texts_of_pods(values: Iterable[NamedValue]) -> Iterator[str]:
    """Yield what has fields of Pods in a text, or in other letters, as Go reads them: no check of fields sees these."""
    for key, value in values:
        if (field := _FIELDS.get(key.lower(), key)) != key:
            yield f"{key} stands for {field}"
        if isinstance(value, str) and (found := _TEXT.search(_ESCAPED.sub(_unescaped, value))) is not None:
            yield f"{key} has {found[1]}"


def values_in(group: str, kind: str, document: Document) -> Iterator[NamedValue]:
    """Yield everything in an object with its name, what is in a list with that of the list; nothing for data."""
    waiting: list[tuple[str, Any]] = [("", document)] if (group, kind) not in OPAQUE else []
    while waiting:
        name, value = waiting.pop()
        if isinstance(value, dict):
            for key, each in value.items():
                yield str(key), each
                if not isinstance(each, str):
                    waiting.append((str(key), each))
        elif isinstance(value, list):
            for each in value:
                if isinstance(each, str):
                    yield name, each
                else:
                    waiting.append((name, each))


def mappings_in(document: Any) -> Iterator[Document]:
    """Yield the object and every mapping in it."""
    waiting = [document]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield value
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _pods_in(document: Document) -> Iterator[PodTemplate]:
    waiting: list[tuple[Any, Document, bool]] = [(document, {}, False)]
    while waiting:
        value, annotations, is_known = waiting.pop()
        if isinstance(value, list):
            waiting.extend((each, {}, is_known) for each in value)
        if not isinstance(value, Mapping):
            continue
        known: tuple[str, ...] = ()
        if any(any(mappings(value.get(each))) for each in _CONTAINER_LISTS):
            known = _CONTAINER_LISTS
            yield PodTemplate(value, annotations)
        elif not is_known and _is_container(value):
            yield PodTemplate({**_pod_fields(value), "containers": [value]}, annotations)
        elif not is_known and _pod_fields(value):
            yield PodTemplate(value, annotations)
        if folders := _FOLDERS & value.keys():
            yield PodTemplate({"volumes": [{key: value[key] for key in ("name", *folders) if key in value}]}, {})
        of_spec = mapping(mapping(value.get("metadata")).get("annotations"))
        for key, each in value.items():
            is_folder = key == "volumes"  # its items are found with their Pod
            if not (is_folder and isinstance(each, list)):
                waiting.append((each, of_spec if key == "spec" else {}, key in known))


def _unescaped(found: re.Match[str]) -> str:
    return chr(int(found[1] or found[2] or found[3], 16) % 0x110000)


def _is_container(value: Document) -> bool:
    """Tell whether a mapping has what only a container has."""
    context = mapping(value.get("securityContext"))
    if _OF_CONTAINERS_ALONE & context.keys() or any(isinstance(value.get(each), Mapping) for each in _HANDLERS):
        return True
    if any("hostPort" in each for each in mappings(value.get("ports"))):
        return True
    return isinstance(value.get("image"), str) and bool(_BESIDE_IMAGE & value.keys())


def _pod_fields(value: Document) -> Document:
    """Return what a mapping has of the fields of a Pod, as far as these are of their types."""
    found = {key: value[key] for key in _POD_FIELDS & value.keys()}
    for key, type_ in (("securityContext", Mapping), ("volumes", list), ("imagePullSecrets", list)):
        if key in found and not isinstance(found[key], type_):
            del found[key]
    if not isinstance(found.get("serviceAccount", ""), str):
        del found["serviceAccount"]
    return found
