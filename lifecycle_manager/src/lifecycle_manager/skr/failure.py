"""Whatever keeps the Lifecycle Manager from a user cluster, as the reason and message that a condition shows."""

from dataclasses import dataclass

from kube_runtime import ClusterUnreachable, Forbidden, KubeError, ObjectUnreadable, Unauthorized
from lifecycle_manager.skr.access import SkrAccessError, SkrUnreachable

REACH_ERRORS = (SkrAccessError, ClusterUnreachable, Forbidden, Unauthorized)
"""The failures that say something about a cluster or its credentials, not about one object in it."""


@dataclass(frozen=True, slots=True)
class SkrFailure:
    """Why a user cluster could not be reached or used, and whether that may pass by itself."""

    reason: str
    message: str
    may_pass: bool = False


def failure_of(error: Exception) -> SkrFailure:
    """Name a failure for people: what could not be done, and what to look at."""
    match error:
        case SkrAccessError():
            return SkrFailure(error.reason, str(error), may_pass=isinstance(error, SkrUnreachable))
        case Unauthorized():
            return SkrFailure(
                "SKRUnauthorized", f"the cluster refuses the credentials of the access Secret: {error}", True
            )
        case Forbidden():
            return SkrFailure("SKRForbidden", f"the credentials of the access Secret lack a right: {error}", True)
        case ClusterUnreachable():
            return SkrFailure(SkrUnreachable.reason, SkrUnreachable.message_of(error), may_pass=True)
        case KubeError():
            refused = ("SKRRequestFailed", "the cluster refused a request")
            unreadable = ("SKRObjectUnreadable", "an object in the cluster can't be read")
            reason, what = unreadable if isinstance(error, ObjectUnreadable) else refused
            return SkrFailure(reason, f"{what}: {error}", may_pass=True)
        case _:
            return SkrFailure("SKRFailure", f"{type(error).__name__}: {error}")
