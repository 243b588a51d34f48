"""Nothing is done while the Go Lifecycle Manager holds its Lease."""

from datetime import UTC, datetime

import httpx
import pytest

from kube_runtime import Manager
from kyma_takeover.lease import LEASE, LEASES, FormerVersionRuns
from lifecycle_manager.contract.resources import SECRETS
from tests.integration.takeover.conftest import KCP, Takeover
from tests.serving import WITHOUT_TLS
from tests.waiting import eventually


async def renew(world: Takeover, holder: str = "klm-controller-manager-0_1f6f9a3e", *, seconds: int = 15) -> None:
    """Renew the Lease as the former version does, or give it up."""
    renewed = f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%S.%fZ}"
    spec = {"holderIdentity": holder, "renewTime": renewed, "leaseDurationSeconds": seconds}
    await world.kcp.merge_patch(LEASES, LEASE, {"spec": spec}, KCP, field_manager="former")


async def readiness(manager: Manager) -> tuple[int, str]:
    async with httpx.AsyncClient(verify=WITHOUT_TLS, trust_env=False, timeout=60) as client:
        answer = await client.get(f"http://127.0.0.1:{manager.probe_ports[0]}/readyz")
    return answer.status_code, answer.text


async def test_nothing_is_done_while_the_lease_is_renewed(world: Takeover) -> None:
    await renew(world)
    before = await world.manifest()
    with pytest.RaisesGroup(FormerVersionRuns, flatten_subgroups=True):
        async with world.running() as manager:
            await eventually(lambda: len(manager.probe_ports) > 0)

            async def says_why() -> bool:
                status, text = await readiness(manager)
                return status == 503 and "stop the former version first" in text

            await eventually(says_why, what="the Lease is named")
            assert not manager.working
            assert await world.manifest() == before
            assert [
                each for each in (await world.kcp.list(SECRETS, KCP)).items if each.metadata.name == "klm-watcher"
            ] == []

            await renew(world, "")

            async def works() -> bool:
                return (await readiness(manager))[0] == 200

            await eventually(works, what="ours is ready")
            await renew(world)
            await eventually(lambda: not manager.working)
