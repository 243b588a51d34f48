"""Access to SKRs. The Lifecycle Manager is the only component that accesses SKRs, and does so through this folder.

`access` finds the kubeconfig of a Kyma's SKR in its Secret, `connections` keeps one pooled client for each SKR in use
and follows rotated kubeconfigs, `controller` probes SKRs that do not answer, `token_renewal` renews the short-lived
tokens of access Secrets (`token` reads them), `announcement` decides when a read is new enough to show the change that
an event reported, `brake` says which deletions are held, `removals` which changes of the catalog, `finalizers` removes
the finalizers of objects that nobody else finalizes, `failure` turns errors into a reason and a message for a
condition, and `watcher` holds what the other folders know of the Watcher.
"""

from typing import TYPE_CHECKING

from kube_runtime.lazy import lazy

if TYPE_CHECKING:
    from lifecycle_manager.skr.access import (
        ACCESS_SECRETS,
        OUR_SECRETS,
        AccessSecretMissing,
        ClusterClaimed,
        SkrAccessError,
        SkrUnreachable,
    )
    from lifecycle_manager.skr.announcement import NOTHING, Announcement, Announcements, ObservedObject
    from lifecycle_manager.skr.brake import RELEASED, Brake, DeletionBrake, deletion_continued
    from lifecycle_manager.skr.connections import Connections
    from lifecycle_manager.skr.controller import connections_of, setup
    from lifecycle_manager.skr.failure import SkrFailure, failure_of
else:
    __getattr__ = lazy(
        __name__,
        {
            "access": "ACCESS_SECRETS OUR_SECRETS AccessSecretMissing ClusterClaimed SkrAccessError SkrUnreachable",
            "announcement": "NOTHING Announcement Announcements ObservedObject",
            "connections": "Connections",
            "controller": "connections_of setup",
            "brake": "RELEASED Brake DeletionBrake deletion_continued",
            "failure": "SkrFailure failure_of",
        },
    )

__all__ = [
    "ACCESS_SECRETS",
    "NOTHING",
    "OUR_SECRETS",
    "RELEASED",
    "AccessSecretMissing",
    "Announcement",
    "Announcements",
    "Brake",
    "ClusterClaimed",
    "Connections",
    "DeletionBrake",
    "ObservedObject",
    "SkrAccessError",
    "SkrFailure",
    "SkrUnreachable",
    "connections_of",
    "deletion_continued",
    "failure_of",
    "setup",
]
