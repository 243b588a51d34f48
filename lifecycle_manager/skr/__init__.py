"""Access to user clusters. The Lifecycle Manager is the only gateway to an SKR, and this is its gate.

`access` finds the kubeconfig of a Kyma's cluster in its Secret, `connections` keeps one pooled client for each
warm cluster and follows rotation, `announcement` says when a read is fresh enough to show what an event spoke of,
and `failure` turns whatever goes wrong on the way there into a reason and a message for a condition.
"""

from lifecycle_manager.skr.access import (
    AccessSecretIncomplete,
    AccessSecretMissing,
    AccessSecretUnusable,
    SkrAccessError,
    access_index,
)
from lifecycle_manager.skr.announcement import Announcement, Announcements, ObjectReference, Trace
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import REACH_ERRORS, SkrFailure, failure_of

__all__ = [
    "REACH_ERRORS",
    "AccessSecretIncomplete",
    "AccessSecretMissing",
    "AccessSecretUnusable",
    "Announcement",
    "Announcements",
    "Connections",
    "ObjectReference",
    "SkrAccessError",
    "SkrFailure",
    "Trace",
    "access_index",
    "failure_of",
]
