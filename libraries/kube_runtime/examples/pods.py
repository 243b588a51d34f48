"""A kind of Kubernetes' own: Pods with a label live for so many seconds. Nothing is kept in memory: none is missed."""

from datetime import datetime

from kube_runtime import JsonObject, Resource
from kube_runtime.operator import Operator, Owner

PODS = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
LIVES = "pods.example.com/lives-seconds"
operator = Operator("pods")


@operator.reconciles(PODS)
async def end(pod: JsonObject, owner: Owner[JsonObject]) -> float | None:
    metadata = pod["metadata"]
    lives = metadata.get("labels", {}).get(LIVES, "")
    if not lives.isdecimal():
        return None
    age = owner.manager.clock.now() - datetime.fromisoformat(metadata["creationTimestamp"])
    left = int(lives) - age.total_seconds()
    if left > 0:
        return left  # it is called again then
    await owner.manager.client.delete(PODS, owner.key.name, owner.key.namespace, uid=metadata["uid"])
    return None
