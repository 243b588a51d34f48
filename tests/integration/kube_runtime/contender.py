"""A process that stands for election and, while it leads, writes its name into a ConfigMap as fast as it can.

Run as `python contender.py KUBECONFIG NAMESPACE NAME`; it prints a line when it begins to lead.
"""

import asyncio
import sys
from pathlib import Path

from kube_runtime import Client, KubeError, Resource
from kube_runtime.leases import LeaderElection, LeaseLost, LeaseTiming

SHORT = LeaseTiming(lease_seconds=3, act_seconds=2.0, renew_seconds=0.3)
CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)


async def main(kubeconfig: Path, namespace: str, name: str) -> None:
    """Take part until killed."""
    async with await Client.from_environment(kubeconfig) as client:
        election = LeaderElection(client, namespace=namespace, name="contest", identity=name, timing=SHORT)
        fenced = client.fenced_by(election.check)

        async def lead() -> None:
            print("leads", flush=True)  # noqa: T201 - the test reads it
            number = 0
            while True:
                number += 1
                data = {"holder": name, "number": str(number), "epoch": str(election.epoch)}
                document = {"metadata": {"name": "throne"}, "data": data}
                try:
                    await fenced.apply(CONFIG_MAPS, "throne", document, namespace, field_manager=name)
                except (LeaseLost, KubeError):
                    await asyncio.sleep(0.01)

        await election.run(lead)


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2], sys.argv[3]))
