"""Puts right what applying alone can't, in objects that are nobody's but ours.

Applying leaves alone what others added, and where that stands in the way it is refused for ever: of a port that
somebody gave another number there would be two, with one name. So what the object is to be is written over what is
there, and applied once more, so that it is ours as before.
"""

from collections.abc import Sequence

import structlog

from kube_runtime import Applier, ApplyResult, Client, Invalid, KubeError, KubernetesObject
from lifecycle_manager.skr_webhook.documents import INVENTORY, Document

FIELD_MANAGER = "lifecycle-manager-skr-webhook-repair"
log = structlog.get_logger("skr_webhook")


async def apply_whole(skr: Client, applier: Applier, documents: Sequence[Document]) -> ApplyResult:
    """Apply the documents, over whatever others made of the objects. Raises nothing: the outcomes say what failed."""
    objects = [KubernetesObject.of(document, index) for index, document in enumerate(documents)]
    applied = await applier.apply(objects, INVENTORY, prune=False)
    refused = [outcome.index for outcome in applied.failed if isinstance(outcome.cause, Invalid)]
    overwritten = [index for index in refused if index is not None and await _overwrite(skr, documents[index])]
    return await applier.apply(objects, INVENTORY, prune=False) if overwritten else applied


async def _overwrite(skr: Client, document: Document) -> bool:
    """Write what an object is to be over what it is; return whether that was possible."""
    metadata = document["metadata"]
    content = {field: value for field, value in document.items() if field not in {"apiVersion", "kind", "metadata"}}
    try:
        resource = await skr.mapper.resource(document["apiVersion"], document["kind"])
        await skr.merge_patch(
            resource, metadata["name"], content, metadata.get("namespace"), field_manager=FIELD_MANAGER
        )
    except KubeError as error:
        log.warning("an edit can't be put right", kind=document["kind"], name=metadata["name"], error=str(error))
        return False
    return True
