"""Bringing objects into a cluster and taking them out again.

`objects` reads them from a text, `order` says what comes first, `applier` applies and prunes, `memory` spares it what
is known to change nothing, `results` is what it answers, `readiness` judges what became of an object.
"""

from kube_runtime.apply.applier import Applier
from kube_runtime.apply.memory import ApplyMemory
from kube_runtime.apply.objects import InventoryEntry, KubernetesObject, parse_objects
from kube_runtime.apply.order import may_refuse
from kube_runtime.apply.readiness import Readiness, ReadinessState, readiness
from kube_runtime.apply.refusals import conversion_failure
from kube_runtime.apply.results import Action, ApplyResult, ObjectOutcome

__all__ = [
    "Action",
    "Applier",
    "ApplyMemory",
    "ApplyResult",
    "InventoryEntry",
    "KubernetesObject",
    "ObjectOutcome",
    "Readiness",
    "ReadinessState",
    "conversion_failure",
    "may_refuse",
    "parse_objects",
    "readiness",
]
