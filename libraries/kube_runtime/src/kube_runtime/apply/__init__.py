"""Bringing objects into a cluster and taking them out again.

`objects` reads them from a text, `order` says what comes first, `applier` applies and prunes, `memory` spares it what
is known to change nothing, `results` is what it answers, `readiness` judges what became of an object, `existence` finds
out whether one exists.
"""

from kube_runtime.apply.applier import Applier
from kube_runtime.apply.contents import goes_with
from kube_runtime.apply.existence import ExistingObject, find_object, kind_is_gone, read_kind
from kube_runtime.apply.memory import ApplyMemory
from kube_runtime.apply.objects import (
    InventoryEntry,
    KubernetesObject,
    once_each,
    parse_manifest,
    parse_objects,
    require_once,
)
from kube_runtime.apply.order import may_refuse
from kube_runtime.apply.readiness import Readiness, ReadinessState, readiness
from kube_runtime.apply.refusals import conversion_failure
from kube_runtime.apply.results import Action, ApplyResult, NoteExisting, ObjectOutcome

__all__ = [
    "Action",
    "Applier",
    "ApplyMemory",
    "ApplyResult",
    "ExistingObject",
    "InventoryEntry",
    "KubernetesObject",
    "NoteExisting",
    "ObjectOutcome",
    "Readiness",
    "ReadinessState",
    "conversion_failure",
    "find_object",
    "goes_with",
    "kind_is_gone",
    "may_refuse",
    "once_each",
    "parse_manifest",
    "parse_objects",
    "read_kind",
    "readiness",
    "require_once",
]
