"""A Module Manager cannot take part in the Leases by which the replicas of Lifecycle Manager share the Kymas."""

import asyncio
from typing import Any

from kube_runtime import Client, KubeError
from kube_runtime.leases.lease import LEASES, wall_time
from kube_runtime.leases.membership import GROUP_LABEL, VIEW
from kyma_module_manager.rights import lease_namespace_of
from lifecycle_manager.replicas import ReplicaSettings, sharding_of
from lifecycle_manager.settings import Settings
from lifecycle_manager_api import names
from tests.integration.module_rights.conftest import NAMESPACES
from tests.waiting import eventually

LONG_TIMEOUTS = {"leader_election_lease_duration": "20s"}
KEYS = [f"kyma-{number}" for number in range(1000)]


async def test_foreign_lease_of_a_module_manager_takes_no_key_away(
    lifecycle_manager: Client, telemetry: Client
) -> None:
    settings = Settings({"replica_name": "replica", **LONG_TIMEOUTS})
    sharding = sharding_of(settings[ReplicaSettings], lifecycle_manager)
    assert sharding is not None
    membership = sharding.membership
    async with asyncio.TaskGroup() as tasks:
        taking_part = tasks.create_task(membership.run())
        await eventually(lambda: all(map(membership.owns, KEYS)))

        written = [namespace for namespace in NAMESPACES if await _writes(telemetry, namespace)]
        before = await _renewed_at(lifecycle_manager)

        async def renewed() -> bool:
            return await _renewed_at(lifecycle_manager) != before

        await eventually(renewed, what="its Lease is renewed")

        assert all(map(membership.owns, KEYS))
        assert len(membership.members) == 1
        assert written == [lease_namespace_of("telemetry")]
        taking_part.cancel()


async def _renewed_at(client: Client) -> list[str | None]:
    selector = f"{GROUP_LABEL}={names.LIFECYCLE_MANAGER}"
    leases = (await client.list(LEASES, names.KCP_LEASE_NAMESPACE, label_selector=selector)).items
    return [each.spec.renew_time for each in leases]


async def _writes(client: Client, namespace: str) -> bool:
    """Write a Lease that claims every key for a thousand years; tell whether it was accepted."""
    try:
        await client.create(LEASES, _claim_of_everything(), namespace, field_manager="mallory")
    except KubeError:
        return False
    return True


def _claim_of_everything() -> dict[str, Any]:
    return {
        "apiVersion": LEASES.api_version,
        "kind": LEASES.kind,
        "metadata": {
            "name": f"{names.LIFECYCLE_MANAGER}-mallory",
            "labels": {GROUP_LABEL: names.LIFECYCLE_MANAGER},
            "annotations": {VIEW: "mallory"},
        },
        "spec": {"holderIdentity": "mallory", "leaseDurationSeconds": 2**31 - 1, "renewTime": wall_time()},
    }
