"""The API server handles the requests of Lifecycle Manager in the priority level of the chart."""

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.charts.clusters import HelmClusters
from tests.waiting import eventually

DISPATCHED = "apiserver_flowcontrol_dispatched_requests_total"
LEVELS = {"lifecycle-manager": "lifecycle-manager", "lifecycle-manager-leases": "leader-election"}
"""The priority levels of requests by their FlowSchemas."""


async def test_requests_of_lifecycle_manager_have_a_priority_level_of_their_own(world: HelmClusters) -> None:
    async def dispatched() -> dict[str, str]:
        text = (await world.kcp.raw("GET", "/metrics", accept="text/plain")).decode()
        return {
            sample.labels["flow_schema"]: sample.labels["priority_level"]
            for family in text_string_to_metric_families(text)
            for sample in family.samples
            if sample.name == DISPATCHED and sample.value > 0
        }

    async def matched() -> bool:
        return LEVELS.items() <= (await dispatched()).items()

    await eventually(matched, what="requests of Lifecycle Manager, and of its Leases, by their FlowSchemas")
