"""The Module Manager of the configured module: a ConfigMap with the text of each Thing."""

from collections.abc import Iterator
from typing import Any

import msgspec

from kyma_module_manager import module_manager
from lifecycle_manager_api import ObjectMeta

MODULE = "module-configured"


class ThingSpec(msgspec.Struct, frozen=True):
    """What a user sets; hostile ones have more."""

    text: str = ""


class Thing(msgspec.Struct, frozen=True):
    """The Module CR."""

    metadata: ObjectMeta
    spec: ThingSpec = ThingSpec()


@module_manager(MODULE, crd=Thing)
def objects(thing: Thing) -> Iterator[dict[str, Any]]:
    """Return the object of a Thing."""
    metadata = {"name": f"thing-{thing.metadata.name}", "namespace": "kyma-system"}
    yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": thing.spec.text[:1000]}}
