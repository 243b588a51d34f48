"""Filters are conditions of the language; a selector of an informer has the API server send less."""

import logging

from kube_runtime import Causes, Controller, JsonObject, Manager, ObjectKey, Resource, Result
from kube_runtime.operator import Operator, Owner

CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
SECRETS = Resource.dynamic("", "v1", "Secret", "secrets", namespaced=True)
log = logging.getLogger("filters")
operator = Operator("filters")


@operator.reconciles(CONFIG_MAPS)
async def reconcile(item: JsonObject, owner: Owner[JsonObject]) -> None:
    labels = item["metadata"].get("labels", {})
    match labels, item.get("data", {}):
        case {"paint": "wet"}, {"colour": colour}:
            log.info("%s is wet and %s", owner.key.name, colour)
        case {"paint": _}, _:
            log.info("%s is painted", owner.key.name)
        case _ if "example.com/sketch" in item["metadata"].get("annotations", {}):
            log.info("%s is a sketch", owner.key.name)


@operator.extends
def painted_secrets(manager: Manager) -> None:
    secrets = manager.informer(SECRETS, label_selector="paint")
    controller: Controller[ObjectKey, None] = manager.controller("painted-secrets")
    controller.watches(secrets, when=lambda change: change.new is not None)

    async def reconcile(key: ObjectKey, _causes: Causes, _state: None) -> Result:
        log.info("%s is a painted Secret", key.name)
        return Result()

    controller.reconciles(reconcile)
