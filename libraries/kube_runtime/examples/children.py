"""A Pod for each Task, and its phase in the Task's status. A Pod that somebody deletes is created again."""

from typing import ClassVar

from kube_crds import CustomResource, Struct
from kube_runtime import Resource
from kube_runtime.operator import Operator, Owner

PODS = Resource.dynamic("", "v1", "Pod", "pods", namespaced=True)
operator = Operator("children")


class TaskSpec(Struct, frozen=True, kw_only=True):
    seconds: int
    """How long the Pod runs."""


class TaskStatus(Struct, frozen=True, kw_only=True):
    phase: str = ""
    """The phase of the Pod."""


class Task(CustomResource, frozen=True, kw_only=True):
    GROUP: ClassVar[str] = "children.example.com"
    spec: TaskSpec
    """What is wanted."""
    status: TaskStatus = TaskStatus()
    """What there is."""


@operator.reconciles(Task, owns=[PODS])
async def run(task: Task, owner: Owner[Task]) -> None:
    container = {"name": "sleep", "image": "busybox", "command": ["sleep", str(task.spec.seconds)]}
    pod = await owner.apply(PODS, {"spec": {"restartPolicy": "Never", "containers": [container]}})
    await owner.write_status(TaskStatus(phase=pod.get("status", {}).get("phase", "")))
