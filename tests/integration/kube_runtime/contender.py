"""A process that shares one key, and while it owns that writes its name into a ConfigMap as fast as it can.

Run as `python contender.py KUBECONFIG NAMESPACE NAME`.
"""

import asyncio
import sys
from pathlib import Path

from kube_runtime import Client, KubeError, Resource
from kube_runtime.leases.lease import LeaseLost, LeaseTiming
from kube_runtime.leases.membership import Membership

SHORT = LeaseTiming(lease_seconds=3, act_seconds=2.0, renew_seconds=0.3)
CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)


async def main(kubeconfig: Path, namespace: str, name: str) -> None:
    """Take part until killed."""
    async with await Client.from_environment(kubeconfig) as client:
        member = Membership(client, namespace=namespace, group="contest", identity=name, timing=SHORT)
        fenced = client.fenced_by(member.check)

        async def lead() -> None:
            number = 0
            while True:
                await asyncio.sleep(0.001)
                if not member.owns("leader"):
                    continue
                number += 1
                data = {"holder": name, "identity": member.identity, "number": str(number)}
                document = {"metadata": {"name": "throne"}, "data": data}
                try:
                    await fenced.apply(CONFIG_MAPS, "throne", document, namespace, field_manager=name)
                except (LeaseLost, KubeError):
                    await asyncio.sleep(0.01)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(member.run())
            tasks.create_task(lead())


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
