"""The condition SKRWebhook of a Kyma: its reasons, what a reconcile reports, and which change of it is an Event."""

from collections.abc import Mapping
from typing import Literal

from kyma_certs import NameRefused
from lifecycle_manager.contract.conditions import (
    EVENT_PATH_FAULTS,
    REMOVED,
    WEBHOOK,
    ConditionContent,
    is_event_path_faulty,
)
from lifecycle_manager.contract.former import is_former
from lifecycle_manager.watcher_certificates.certificates import CertificateContended, CertificatesRevoked, NameReserved
from lifecycle_manager.watcher_certificates.issued_certificates import CertificatePending
from lifecycle_manager_api import Condition, Kyma, find

WATCHER_STARTING = "WatcherStarting"
REMOVING = "Removing"

NO_CERTIFICATE: Mapping[type[Exception], tuple[str, float]] = {
    CertificatePending: ("CertificatePending", 2.0),
    CertificatesRevoked: ("CertificatesRevoked", 2.0),
    CertificateContended: ("CertificateContended", 1.0),
    NameReserved: ("NameReserved", 30.0),
    NameRefused: ("NameRefused", 30.0),
}
"""Why a Watcher has no certificate: the reason, and after how many seconds to try again."""


REMOVAL_DONE = ConditionContent("False", REMOVED, "the Watcher is removed from the cluster")


def condition_of(kyma: Kyma) -> Condition | None:
    return find(kyma.status.conditions, WEBHOOK)


def reason_of(kyma: Kyma) -> str:
    condition = condition_of(kyma)
    return condition.reason if condition is not None else ""


def is_of_former_version(kyma: Kyma) -> bool:
    """Tell whether the Watcher was reported by a former version, and not by this one yet."""
    condition = condition_of(kyma)
    return condition is not None and is_former(condition)


def reported_fault(kyma: Kyma, status: ConditionContent) -> ConditionContent | None:
    """Return what the condition says, if it is about the same fault: how long that has lasted is not reported again."""
    known = condition_of(kyma)
    if known is None or status.reason not in EVENT_PATH_FAULTS or status.reason != known.reason:
        return None
    return ConditionContent(known.status, known.reason, known.message)


def event_type(kyma: Kyma, status: ConditionContent) -> Literal["Normal", "Warning"] | None:
    """Return the type of the Event for a new status, None where it begins and ends no fault of the event path."""
    if status.reason in EVENT_PATH_FAULTS:
        return "Warning"
    return "Normal" if is_event_path_faulty(kyma) else None
