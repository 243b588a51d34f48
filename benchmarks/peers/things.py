"""Things, the kind of object that all the programs watch: a custom resource with a spec of 4 kB."""

from typing import Any, ClassVar

import msgspec

from kube_runtime import ClientOptions, Resource

GROUP = "peers.example.com"
AT_ONCE = 64
UNLIMITED = ClientOptions(qps=0, max_in_flight=AT_ONCE, timeout_seconds=60)


class Part(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """What the parts of a Thing have in common: they are read, never changed, and hold no cycles."""


class ThingMetadata(Part, frozen=True):
    """What is read of a Thing's metadata."""

    name: str
    namespace: str
    uid: str
    resource_version: str
    generation: int


class Rule(Part, frozen=True):
    """One of the rules that a spec consists of."""

    name: str
    hosts: tuple[str, ...]
    weight: int
    comment: str


class ThingSpec(Part, frozen=True):
    """About 4 kB of rules."""

    rules: tuple[Rule, ...]


class ThingStatus(Part, frozen=True):
    """Which generation the controller has seen."""

    observed_generation: int = 0


class Thing(Part, frozen=True):
    """What the programs watch."""

    GROUP: ClassVar = GROUP
    VERSION: ClassVar = "v1"
    KIND: ClassVar = "Thing"
    PLURAL: ClassVar = "things"
    NAMESPACED: ClassVar = True

    metadata: ThingMetadata
    spec: ThingSpec
    status: ThingStatus = ThingStatus()


THINGS = Resource.of(Thing)
THINGS_AS_DICTS: Resource[dict[str, Any]] = Resource.dynamic(GROUP, "v1", "Thing", "things", namespaced=True)
CONFIG_MAPS: Resource[dict[str, Any]] = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
