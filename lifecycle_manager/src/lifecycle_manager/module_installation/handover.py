"""Hands objects over to another module that has them too: from then on their labels say that they are that one's.

Done before the module that goes forgets them, so that they are somebody's at any time, whenever a process ends.
"""

from collections.abc import Mapping

import structlog

from kube_runtime import Client, InventoryEntry, KindUnknown, NotFound, ObjectKey
from lifecycle_manager.module_installation.sharing import Holder
from lifecycle_manager.resources import FIELD_MANAGER
from lifecycle_manager_api import names

log = structlog.get_logger("manifest")


async def hand_over(skr: Client, giver: ObjectKey, left: Mapping[InventoryEntry, Holder]) -> None:
    """Relabel those of the objects that carry the labels of who gives them up. Raises KubeError."""
    for entry, heir in left.items():
        try:
            resource = await skr.mapper.resource(entry.api_version, entry.kind)
            live = await skr.get(resource, entry.name, entry.namespace or None)
            if (live["metadata"].get("annotations") or {}).get(names.OWNED_BY) != str(giver):
                continue
            metadata = {"labels": {names.MODULE_NAME: heir.module}, "annotations": {names.OWNED_BY: str(heir.key)}}
            patch = {"metadata": {**metadata, "uid": live["metadata"]["uid"]}}
            await skr.merge_patch(resource, entry.name, patch, entry.namespace or None, field_manager=FIELD_MANAGER)
        except (KindUnknown, NotFound):
            continue  # gone already
        log.info("object left to another module", object=str(entry), module=heir.module)
