"""`klm images`: the images that an installation pulls, by the rules of the charts' templates."""

from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from kube_runtime import ManifestInvalid, load_yaml
from kyma_fleet.documents import Document
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain

Values = Mapping[str, Any]


class Images(Document, frozen=True, kw_only=True):
    """The names of images."""

    images: tuple[str, ...]

    def print_table(self, screen: Screen) -> None:
        """Print each on a line of its own, as programs that copy images read them."""
        for each in self.images:
            screen.print(plain(each))

    def names(self) -> Iterable[str]:
        """Return the names."""
        return self.images


def images_of(manager: Sequence[Path], modules: Sequence[Path], *, registry: str) -> Images:
    """Return the images for the values of the chart lifecycle-manager and of each module. Raises Problem."""
    merged: Values = {}
    for each in manager:
        merged = _merged(merged, _read(each))
    image, watcher = merged.get("image") or {}, merged.get("watcher") or {}
    of_watcher = {"registry": image.get("registry"), "digest": watcher.get("digest")}
    names = [
        _name("lifecycle-manager", image, registry),
        watcher.get("image") or _name("skr-watcher", of_watcher, registry),
    ]
    of_modules = [_read(each).get("image") or {} for each in modules] or [{}]
    names += [_name("module-manager", each, registry) for each in of_modules]
    return Images(images=tuple(dict.fromkeys(names)))


def _name(repository: str, image: Values, registry: str) -> str:
    """Return the name that the charts' templates make of `image`."""
    host = image.get("registry") or registry
    path = "/".join(filter(None, (host, image.get("repository") or repository)))
    if digest := image.get("digest"):
        return f"{path}@{digest}"
    return f"{path}:{image.get('tag') or version('kyma-fleet')}"


def _read(path: Path) -> Values:
    try:
        values = load_yaml(path.read_bytes())
    except (OSError, ManifestInvalid) as error:
        raise Problem(f"{path}: {error}") from None
    if not isinstance(values, dict):
        raise Problem(f"{path}: expected a mapping, as of values.yaml")
    for key in ("image", "watcher"):
        if not isinstance(values.get(key) or {}, dict):
            raise Problem(f"{path}: {key} is no mapping, as it is in values.yaml")
    return values


def _merged(under: Values, over: Values) -> Values:
    """Return values as Helm merges them: a mapping key by key, anything else as a whole."""
    return {
        **under,
        **{
            key: _merged(under[key], value) if isinstance(value, dict) and isinstance(under.get(key), dict) else value
            for key, value in over.items()
        },
    }
