"""Working keys off: `queue` says which and in what order, `controller` has them reconciled, `retries` spaces failures,
`turns` and `pace` leave room for events.
"""

from kube_runtime.controller.controller import Controller, Failure, Result
from kube_runtime.controller.pace import Pace
from kube_runtime.controller.queue import Priority, QueueShutDown, WorkQueue
from kube_runtime.controller.retries import RetryPolicy

__all__ = ["Controller", "Failure", "Pace", "Priority", "QueueShutDown", "Result", "RetryPolicy", "WorkQueue"]
