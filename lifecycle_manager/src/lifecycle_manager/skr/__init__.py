"""Access to user clusters. The Lifecycle Manager is the only gateway to an SKR, and this is its gate.

`access` finds the kubeconfig of a Kyma's cluster in its Secret, `connections` keeps one pooled client for each warm
cluster and follows rotation, `announcement` says when a read is fresh enough to show what an event spoke of,
`probing` finds out when a cluster that gave no answer is back, `finalizers` lets an object go that nobody else will
let go, and `failure` turns whatever goes wrong on the way there into a reason and a message for a condition.
`event_path`, `catalog_path` and `leaving` are what the folders that look after parts of a cluster read of each other
in the conditions of its Kyma.
"""

from lifecycle_manager.skr.access import (
    AccessSecretIncomplete,
    AccessSecretMissing,
    AccessSecretUnusable,
    ClusterClaimed,
    SkrAccessError,
    SkrUnreachable,
    access_index,
)
from lifecycle_manager.skr.announcement import Announcement, Announcements, Seen
from lifecycle_manager.skr.connections import Connections
from lifecycle_manager.skr.failure import REACH_ERRORS, SkrFailure, failure_of
from lifecycle_manager.skr.probing import ClusterProbe

__all__ = [
    "REACH_ERRORS",
    "AccessSecretIncomplete",
    "AccessSecretMissing",
    "AccessSecretUnusable",
    "Announcement",
    "Announcements",
    "ClusterClaimed",
    "ClusterProbe",
    "Connections",
    "Seen",
    "SkrAccessError",
    "SkrFailure",
    "SkrUnreachable",
    "access_index",
    "failure_of",
]
