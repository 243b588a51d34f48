"""The container images of a manifest as modulectl finds them: in Deployments and StatefulSets and their environment."""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kube_runtime import KubernetesObject
from lifecycle_manager_api.pod_security import mapping, mappings

WORKLOADS = frozenset({"Deployment", "StatefulSet"})
FLOATING_TAGS = frozenset({"latest", "main"})
_PART = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?"
_HOST = rf"(?:{_LABEL}(?:\.{_LABEL})*|\[[0-9a-fA-F:]+\])(?::[0-9]+)?"
_IMAGE = re.compile(
    rf"(?:{_HOST}/)?(?:{_PART}/)*(?P<name>{_PART})"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}))?(?:@sha256:(?P<digest>[0-9a-f]{64}))?"
)
_VERSION = re.compile(r"v?\d+\.\d+\.\d+(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?")
_MAX_LENGTH = 256


@dataclass(frozen=True, slots=True)
class WorkloadImage:
    """An image with a tag or digest."""

    reference: str
    name: str
    tag: str
    digest: str

    @property
    def resource(self) -> str:
        """The name of its resource in the component."""
        return f"{self.name}-{self.digest[:8]}" if self.digest else self.name

    @property
    def version(self) -> str:
        """The version of its resource: a semantic one, whatever the tag is."""
        version = self.tag
        if not _VERSION.fullmatch(version):
            normalised = re.sub(r"[^a-zA-Z0-9.-]", "-", version).strip("-.") or "unknown"
            version = f"0.0.0-{normalised}" if self.tag or not self.digest else "0.0.0"
        return f"{version}+sha256.{self.digest[:12]}" if self.digest else version


def image_in(reference: str) -> WorkloadImage | None:
    """Return the image that a text names by tag or digest; None where it names none."""
    found = _IMAGE.fullmatch(reference) if len(reference) <= _MAX_LENGTH else None
    if found is None or not (found["tag"] or found["digest"]):
        return None
    return WorkloadImage(reference, found["name"], found["tag"] or "", found["digest"] or "")


def images_in(objects: Iterable[KubernetesObject]) -> tuple[WorkloadImage, ...]:
    """Return the images of the manifest that the component names, each once."""
    found = {text: image for _, text, _ in used_images(objects) if (image := image_in(text)) is not None}
    return tuple(found[text] for text in sorted(found))


def image_problems(objects: Iterable[KubernetesObject]) -> Iterator[str]:
    """Yield the images that a component can't name."""
    for each, text, is_container in used_images(objects):
        image = image_in(text)
        if image is not None and image.tag.lower() in FLOATING_TAGS:
            yield f"{each.kind} {each.name}: the image {text!r} has the tag {image.tag}: expected that of a version"
        elif image is None and is_container:
            yield f"{each.kind} {each.name}: the image {text!r} has no tag or digest, or is no image"


def used_images(objects: Iterable[KubernetesObject]) -> Iterator[tuple[KubernetesObject, str, bool]]:
    """Yield the images of containers and the values of their environment, which may be images, with their object."""
    for each in objects:
        if each.kind in WORKLOADS:
            pod = mapping(mapping(mapping(each.document.get("spec")).get("template")).get("spec"))
            for container in (*mappings(pod.get("containers")), *mappings(pod.get("initContainers"))):
                if isinstance(image := container.get("image"), str) and image:
                    yield each, image, True
                values = (variable.get("value") for variable in mappings(container.get("env")))
                yield from ((each, value, False) for value in values if isinstance(value, str))
