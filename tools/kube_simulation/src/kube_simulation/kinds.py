"""Which kinds a cluster serves: the built-in ones, shared by all clusters, and those of CustomResourceDefinitions."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kube_simulation.schemas import Shape, object_shape


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of object as one version of its group serves it.

    - `storage`: the table that its objects are in, shared by all versions
    - `generation`: changes of what is not metadata or status are counted in metadata.generation
    - `custom`: made by a CustomResourceDefinition, so that what is empty stays, and unknown fields go
    - `unconditional`: may be replaced without naming a resource version
    - `selectable`: what field selectors may name beside name and namespace
    - `creates_on_update`: an update of an object that is not there makes it
    """

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    shape: Shape
    status: bool = False
    generation: bool = False
    custom: bool = False
    unconditional: bool = True
    creates_on_update: bool = False
    singular: str = ""
    short_names: tuple[str, ...] = ()
    subresources: tuple[str, ...] = ()
    list_kind: str = ""
    selectable: tuple[str, ...] = ()
    storage: tuple[str, str] = ("", "")

    @property
    def api_version(self) -> str:
        """Group and version as they stand in an object."""
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def plural_name(self) -> str:
        """The plural with its group, as it stands in messages about resources."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def kind_name(self) -> str:
        """The kind with its group, as it stands in messages about objects."""
        return f"{self.kind}.{self.group}" if self.group else self.kind


def kinds_of_crd(crd: Mapping[str, Any]) -> list[Kind]:
    """Return the kinds that a CustomResourceDefinition has served, one for each version."""
    spec = crd["spec"]
    names = spec["names"]
    return [
        Kind(
            group=spec["group"],
            version=version["name"],
            kind=names["kind"],
            plural=names["plural"],
            namespaced=spec["scope"] == "Namespaced",
            shape=object_shape((version.get("schema") or {}).get("openAPIV3Schema") or {}),
            status="status" in (version.get("subresources") or {}),
            generation=True,
            custom=True,
            unconditional=False,
            singular=names.get("singular") or names["kind"].lower(),
            short_names=tuple(names.get("shortNames") or ()),
            list_kind=names.get("listKind") or f"{names['kind']}List",
            storage=(spec["group"], names["plural"]),
        )
        for version in spec["versions"]
        if version.get("served")
    ]
