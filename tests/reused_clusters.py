"""Clusters that files of tests use one after the other: what one leaves there is taken out of etcd.

To start an API server costs more CPU time than most of these files.
"""

import json
import ssl
from base64 import b64decode, b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx

from kube_runtime import Client
from kyma_local.clusters import LocalClusters
from tests.waiting import eventually

OF_THE_SERVERS = (b"/leases/kube-system/", b"/masterleases/", b"/apiregistration.k8s.io/")
"""What the API servers themselves write and delete."""
EVERYTHING = {"key": b64encode(b"/").decode(), "range_end": b64encode(b"0").decode()}
MAX_DELETED = 100
"""In a transaction; etcd refuses more than 128."""


@dataclass(frozen=True, eq=False)
class ReusedClusters:
    """Running clusters; `revision` of etcd and `groups` of kinds are those from which they are new."""

    clusters: LocalClusters
    revision: int
    groups: list[set[str]]

    @classmethod
    @asynccontextmanager
    async def start(cls, **options: Any) -> AsyncGenerator["ReusedClusters", None]:
        """Start clusters, as LocalClusters does."""
        async with LocalClusters.start(**options) as clusters:
            answer = await _ask_etcd(clusters, "range", EVERYTHING | {"count_only": True})
            yield cls(clusters, int(answer["header"]["revision"]), await _groups(clusters))

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[LocalClusters, None]:
        """Lend the clusters; whoever has them next finds nothing of what is created meanwhile."""
        yield self.clusters
        since = {"keys_only": True, "min_create_revision": str(self.revision + 1)}
        found = (await _ask_etcd(self.clusters, "range", EVERYTHING | since)).get("kvs", ())
        keys = [each["key"] for each in found if not any(own in b64decode(each["key"]) for own in OF_THE_SERVERS)]
        for first in range(0, len(keys), MAX_DELETED):
            deleted = [{"requestDeleteRange": {"key": key}} for key in keys[first : first + MAX_DELETED]]
            await _ask_etcd(self.clusters, "txn", {"success": deleted})

        async def are_as_new() -> bool:
            return await _groups(self.clusters) == self.groups

        await eventually(are_as_new, what="no kind is served that tests have defined")


async def _groups(clusters: LocalClusters) -> list[set[str]]:
    """Return the groups whose kinds are served, for each cluster."""
    found = []
    for cluster in (clusters.kcp, *clusters.skrs):
        async with await Client.from_environment(cluster.admin_kubeconfig) as client:
            listed = json.loads(await client.raw("GET", "/apis", accept="application/json"))
        found.append({each["name"] for each in listed["groups"]})
    return found


async def _ask_etcd(clusters: LocalClusters, what: str, body: dict[str, Any]) -> dict[str, Any]:
    url, *files = (flag.partition("=")[2] for flag in clusters.etcd.client_flags)
    context = ssl.create_default_context(cafile=files[0])
    context.load_cert_chain(files[1], files[2])
    async with httpx.AsyncClient(base_url=url, verify=context, trust_env=False, timeout=60) as client:
        answer: dict[str, Any] = (await client.post(f"/v3/kv/{what}", json=body)).raise_for_status().json()
    return answer
