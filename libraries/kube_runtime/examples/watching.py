"""Every change of a kind as it comes, without a queue, retries or a status: for logs and counts."""

import logging

from kube_runtime import Change, JsonObject, Manager, Resource
from kube_runtime.operator import Operator

SECRETS = Resource.dynamic("", "v1", "Secret", "secrets", namespaced=True)
log = logging.getLogger("watching")
operator = Operator("watching")


def note(change: Change[JsonObject]) -> None:
    item = change.new or change.old or {}
    what = "created" if change.old is None else "deleted" if change.new is None else "changed"
    log.info("%s: Secret %s", what, item["metadata"]["name"])


@operator.extends
def watch(manager: Manager) -> None:
    manager.informer(SECRETS).on_change(note)
