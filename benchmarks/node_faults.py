"""Users change Module CRs on real nodes for half an hour, with a fault of Pods or nodes each minute: none is lost.

The faults are those of tests/nodes, in turn; one that takes longer delays the next. A change counts as lost
where it is not in force within LOST_SECONDS: reconciles at intervals are twice as far apart. Afterwards nobody changes
anything, and nothing may be written to the objects of the users and of Lifecycle Manager.

Run by `make soak NODES=1`, which needs root on Linux, or `python -m benchmarks.node_faults [--minutes 30]`.
"""

import argparse
import asyncio
import sys
import time
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory

from kyma_demo import names
from kyma_demo.object_watcher import CONFIG_MAPS
from kyma_demo.user import INFRASTRUCTURES
from kyma_local.helm import find_helm
from kyma_local.nodes.requirements import require_nodes
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from tests.nodes.clusters import NodeClusters, open_clusters
from tests.nodes.faults import FAULTS
from tests.users import changing

LOST_SECONDS = 120.0
FAULT_SECONDS = 60.0
SETTLED_SECONDS = 60.0
QUIET_SECONDS = 60.0


def main() -> int:
    """Run it; return 1 if something is written afterwards. Raises NotSeen for a change that is lost."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    minutes = parser.parse_args().minutes
    require_nodes()
    with TemporaryDirectory(prefix="node-faults-") as folder:
        written = asyncio.run(_run(Path(folder), minutes * 60))
    print(f"objects written while nobody changes anything: {written}")
    return 1 if written else 0


async def _run(folder: Path, seconds: float) -> int:
    async with open_clusters(folder, find_helm()) as world:
        async with changing(world.walkthrough, within=LOST_SECONDS) as users:
            end = time.monotonic() + seconds
            for fault in cycle(FAULTS):
                started = time.monotonic()
                if started >= end:
                    break
                await fault(world)
                took = time.monotonic() - started
                await asyncio.sleep(max(0.0, FAULT_SECONDS - took))
                longest, write = users.slowest_since_last()
                print(
                    f"{fault.__name__}: {took:.0f} s; slowest change {longest:.1f} s, slowest write {write:.1f} s; "
                    f"{users.made} changes so far",
                    flush=True,
                )
        print(f"changes in force: {users.made}, all")
        await asyncio.sleep(SETTLED_SECONDS)
        before = await _versions(world)
        await asyncio.sleep(QUIET_SECONDS)
        return len(before ^ await _versions(world))


async def _versions(world: NodeClusters) -> set[tuple[str, str, str]]:
    """Return kind, name and version of each object of the users and of Lifecycle Manager."""
    found = set()
    for resource in (INFRASTRUCTURES, CONFIG_MAPS):
        for each in (await world.skr.list(resource, names.SKR_NAMESPACE)).items:
            found.add((resource.kind, each["metadata"]["name"], each["metadata"]["resourceVersion"]))
    for config in (await world.kcp.list(MODULE_CONFIGS, names.KCP_NAMESPACE)).items:
        found.add(("ModuleConfig", config.metadata.name, config.metadata.resource_version))
    for sync in (await world.kcp.list(SYNC_RESOURCES, names.KCP_NAMESPACE)).items:
        found.add(("SyncResource", sync.metadata.name, sync.metadata.resource_version))
    return found


if __name__ == "__main__":
    sys.exit(main())
