"""A replica in a process of its own, which a test may freeze or kill. It rolls out, and installs what is released.

Run as `python -m tests.chaos.rollouts.replica KUBECONFIG NAME`.
"""

import asyncio
import sys
from pathlib import Path

from kube_runtime import Client, ClientOptions, KubeconfigPolicy, Manager
from kube_runtime.leases.lease import LeaseTiming
from kube_runtime.leases.lease_sharding import LeaseSharding
from lifecycle_manager import module_rollouts
from lifecycle_manager.contract.resources import DATED_RELEASE_METAS, MODULE_TEMPLATES
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import RolloutSettings
from tests.unit.module_rollouts.small_fleet import KCP, Installer

LEASE = LeaseTiming(lease_seconds=6, act_seconds=4.0, renew_seconds=1.5)
REQUEST_TIMEOUT_SECONDS = 120.0
"""A request that the process had begun when it was frozen goes on afterwards."""


async def main(kubeconfig: Path, name: str) -> None:
    """Take part until killed."""
    options = ClientOptions(qps=0, timeout_seconds=REQUEST_TIMEOUT_SECONDS, user_agent=f"{name}/1")
    policy = KubeconfigPolicy.permissive()
    async with (
        await Client.from_kubeconfig(kubeconfig, options=options, policy=policy) as leases,
        await Client.from_kubeconfig(kubeconfig, options=options, policy=policy) as kcp,
    ):
        sharding = LeaseSharding(leases, namespace=KCP, group="rollouts", name=name, timing=LEASE)
        manager = Manager(kcp, namespace=KCP, sharding=sharding)
        offers = Offers(manager.informer(MODULE_TEMPLATES), manager.informer(DATED_RELEASE_METAS))
        module_rollouts.setup(manager, offers, RolloutSettings())
        Installer(manager)
        await manager.run(asyncio.Event())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
