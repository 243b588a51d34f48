"""What somebody wrote to clusters: read from the audit logs of their API servers."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kyma_local.cluster import LocalCluster

OURS = "kube-runtime"
"""The beginning of the user agent of this version, and of klm."""
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

    def writes(self, agent: str = OURS) -> Iterator[Write]:
        """Yield the writes of a program that did something; dry runs do nothing."""
        with _path(self.cluster).open("rb") as log:
            log.seek(self.begin)
            for line in log:
                event = json.loads(line)
                reference = event.get("objectRef") or {}
                if (
                    event["verb"] in WRITES
                    and event["stage"] == "ResponseComplete"
                    and event["responseStatus"]["code"] < 300
                    and "dryRun" not in event["requestURI"]
                    and event.get("userAgent", "").startswith(agent)
                ):
                    yield Write(
                        self.cluster.name,
                        event["verb"],
                        "/".join(filter(None, (reference["resource"], reference.get("subresource")))),
                        reference.get("namespace", ""),
                        reference.get("name", ""),
                        event["userAgent"],
                    )

    def counts(self, agent: str = OURS) -> Counter[Write]:
        """Return how often each write happened."""
        return Counter(self.writes(agent))


def _path(cluster: LocalCluster) -> Path:
    return cluster.directory / "audit.log"
