"""Reconciling keys: `controller.Controller` declares what triggers them and keeps their state, `queue` holds them with
their `causes`, `workers` reconcile them, `steps` has the parts of a removal in stages, `retries` spaces failures.
"""

from kube_runtime.controller.causes import MAX_CAUSES_PER_KEY, NO_CAUSES, Causes
from kube_runtime.controller.controller import Controller
from kube_runtime.controller.options import ControllerOptions
from kube_runtime.controller.priority import Priority
from kube_runtime.controller.queue import QueueShutDown, WorkQueue
from kube_runtime.controller.retries import RetryPolicy
from kube_runtime.controller.steps import End, Request, Step, TooManySteps
from kube_runtime.controller.workers import Failure, Result, Workers

__all__ = [
    "MAX_CAUSES_PER_KEY",
    "NO_CAUSES",
    "Causes",
    "Controller",
    "ControllerOptions",
    "End",
    "Failure",
    "Priority",
    "QueueShutDown",
    "Request",
    "Result",
    "RetryPolicy",
    "Step",
    "TooManySteps",
    "WorkQueue",
    "Workers",
]
