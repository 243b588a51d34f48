"""Replaces the images of a module's objects by those in the registry of this landscape. Pure functions.

An image is identified by its last path segment with its tag (or its digest where it has none): its registry differs
from landscape to landscape. Containers and volumes are rewritten, and variables whose whole value is an image, since
operators read from variables which images to start.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from kube_runtime import KubernetesObject

_POD_SPECS: Mapping[str, tuple[str, ...]] = {
    "Pod": ("spec",),
    "Deployment": ("spec", "template", "spec"),
    "StatefulSet": ("spec", "template", "spec"),
    "DaemonSet": ("spec", "template", "spec"),
    "ReplicaSet": ("spec", "template", "spec"),
    "ReplicationController": ("spec", "template", "spec"),
    "PodTemplate": ("template", "spec"),
    "Job": ("spec", "template", "spec"),
    "CronJob": ("spec", "jobTemplate", "spec", "template", "spec"),
}
PodChange = Callable[[Mapping[str, Any]], Mapping[str, Any]]
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")


def localized(objects: Iterable[KubernetesObject], images: Iterable[str]) -> tuple[KubernetesObject, ...]:
    """Return the objects with these images instead of the same ones of other registries."""
    local = {_name_and_tag(image): image for image in images}
    if not local:
        return tuple(objects)
    rewrite = partial(_with_images, local=local)
    return tuple(with_pod_spec(each, rewrite) for each in objects)


def with_pod_spec(thing: KubernetesObject, change: PodChange) -> KubernetesObject:
    """Return an object with its Pod's specification changed; the very same one where nothing changes."""
    path = _POD_SPECS.get(thing.kind)
    if path is None:
        return thing
    document = _changed_at(thing.document, path, change)
    return thing if document is thing.document else replace(thing, document=document)


def _changed_at(section: Any, path: tuple[str, ...], change: PodChange) -> Any:
    """Return a section with what is below a path changed; the very same one where nothing is."""
    if not isinstance(section, Mapping):
        return section
    if not path:
        return change(section)
    below = section.get(path[0])
    changed = _changed_at(below, path[1:], change)
    return section if changed is below else {**section, path[0]: changed}


def _with_images(pod: Mapping[str, Any], local: Mapping[str, str]) -> Mapping[str, Any]:
    lists = [key for key in _CONTAINERS if isinstance(pod.get(key), list)]
    changes = {key: [_container(each, local) for each in pod[key]] for key in lists}
    if isinstance(pod.get("volumes"), list):
        changes["volumes"] = [_volume(each, local) for each in pod["volumes"]]
    return {**pod, **changes} if changes else pod


def _container(container: Any, local: Mapping[str, str]) -> Any:
    if not isinstance(container, Mapping):
        return container
    changed = dict(container)
    if isinstance(container.get("image"), str):
        changed["image"] = local.get(_name_and_tag(container["image"]), container["image"])
    if isinstance(container.get("env"), list):
        changed["env"] = [_variable(each, local) for each in container["env"]]
    return changed


def _volume(volume: Any, local: Mapping[str, str]) -> Any:
    image = volume.get("image") if isinstance(volume, Mapping) else None
    reference = image.get("reference") if isinstance(image, Mapping) else None
    if not isinstance(image, Mapping) or not isinstance(reference, str):
        return volume
    return {**volume, "image": {**image, "reference": local.get(_name_and_tag(reference), reference)}}


def _variable(variable: Any, local: Mapping[str, str]) -> Any:
    value = variable.get("value") if isinstance(variable, Mapping) else None
    if not isinstance(value, str) or "/" not in value:
        return variable
    return {**variable, "value": local.get(_name_and_tag(value), value)}


def _name_and_tag(image: str) -> str:
    """Return what identifies an image in any registry."""
    last = image.rpartition("/")[2] if "@" not in image else image.partition("@")[0].rpartition("/")[2]
    return last if ":" in last else f"{last}@{image.partition('@')[2]}"
