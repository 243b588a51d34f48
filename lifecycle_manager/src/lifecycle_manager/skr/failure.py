"""Errors of a reconcile, mostly of access to an SKR, as the reason and message of a condition."""

from dataclasses import dataclass

from kube_runtime import ClusterUnreachable, Forbidden, KubeError, ObjectUnreadable, Unauthorized, conversion_failure
from lifecycle_manager.contract.conditions import ConditionContent
from lifecycle_manager.skr.access import ClusterClaimed, SkrAccessError, SkrUnreachable

INTERNAL_ERROR = "InternalError"
"""The reason of an exception that nothing foresaw."""


@dataclass(frozen=True, slots=True)
class SkrFailure:
    """Why a reconcile or access to an SKR failed.

    `may_pass` where that may end without anybody's intervention. `is_without_access` where nothing is known of the SKR.
    """

    reason: str
    message: str
    may_pass: bool = False
    is_without_access: bool = False


def failure_of(error: Exception) -> SkrFailure:
    """Return the reason and message of an error: what could not be done, and what to check."""
    match error:
        case SkrAccessError():
            may_pass, is_claimed = isinstance(error, SkrUnreachable), isinstance(error, ClusterClaimed)
            return SkrFailure(error.reason, str(error), may_pass, is_without_access=not is_claimed)
        case Unauthorized():
            return SkrFailure(
                "SKRUnauthorized", f"the cluster refuses the credentials of the access Secret: {error}", True
            )
        case Forbidden() if not error.is_denied:
            return SkrFailure("SKRForbidden", f"the credentials of the access Secret lack a right: {error}", True)
        case ClusterUnreachable():
            return SkrFailure(
                SkrUnreachable.reason, SkrUnreachable.message_of(error), may_pass=True, is_without_access=True
            )
        case KubeError():
            return SkrFailure(*_request_failed(error), may_pass=True)
        case _:
            # Its text may be anybody's, such as a value of a user's object, and stays in the log.
            return SkrFailure(INTERNAL_ERROR, f"unexpected {type(error).__name__}; retried, details are in the log")


def _request_failed(error: KubeError) -> tuple[str, str]:
    if (conversion := conversion_failure(error)) is not None:
        return "SKRConversionFailed", conversion
    if isinstance(error, ObjectUnreadable):
        return "SKRObjectUnreadable", f"an object in the cluster can't be read: {error}"
    return "SKRRequestFailed", f"the cluster refused a request: {error}"


def failed(error: Exception) -> ConditionContent:
    failure = failure_of(error)
    return ConditionContent("False", failure.reason, failure.message)
