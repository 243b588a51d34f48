"""Working keys off: `queue` says which and in what order, `controller` has them reconciled, `retries` spaces failures,
`turns` leaves room for events.
"""

from kube_runtime.controller.controller import Controller, Failure, Result
from kube_runtime.controller.queue import Priority, QueueShutDown, WorkQueue
from kube_runtime.controller.retries import RetryPolicy

__all__ = ["Controller", "Failure", "Priority", "QueueShutDown", "Result", "RetryPolicy", "WorkQueue"]
