"""What somebody wrote to clusters: read from the audit logs of their API servers."""

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kyma_local.cluster import LocalCluster

Document = dict[str, Any]
OURS = "kube-runtime"
"""The beginning of the user agent of this version, and of klm."""
GO = "manager/"
"""The beginning of that of the Go version."""
WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Write:
    """One write that an API server carried out."""

    cluster: str
    verb: str
    resource: str
    namespace: str
    name: str
    agent: str


@dataclass(frozen=True)
class AuditLog:
    """The audit log of a cluster, from where it was when this was made."""

    cluster: LocalCluster
    begin: int

    @classmethod
    def of(cls, cluster: LocalCluster) -> "AuditLog":
        """Return the log from now on."""
        return cls(cluster, _path(cluster).stat().st_size)

    def requests(self, agent: str = OURS) -> Iterator[Document]:
        """Yield the requests of a program that are answered, watches excepted."""
        with _path(self.cluster).open("rb") as log:
            assert log.seek(0, os.SEEK_END) >= self.begin, "the audit log was rotated"
            log.seek(self.begin)
            for event in map(json.loads, log):
                is_answered = event["stage"] == "ResponseComplete" and event["verb"] != "watch"
                if is_answered and event.get("userAgent", "").startswith(agent):
                    yield event

    def writes(self, agent: str = OURS) -> Iterator[Write]:
        """Yield the writes of a program that did something; dry runs do nothing."""
        for event in self.requests(agent):
            reference = event.get("objectRef") or {}
            is_done = event["responseStatus"]["code"] < 300 and "dryRun" not in event["requestURI"]
            if event["verb"] in WRITES and is_done:
                yield Write(
                    self.cluster.name,
                    event["verb"],
                    "/".join(filter(None, (reference["resource"], reference.get("subresource")))),
                    reference.get("namespace", ""),
                    reference.get("name", ""),
                    event["userAgent"],
                )


def _path(cluster: LocalCluster) -> Path:
    return cluster.directory / "audit.log"
