"""Module Managers of our SDK in the control plane of clusters with nodes."""

import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from kube_runtime import load_yaml
from kyma_local.processes import start_child
from kyma_module_manager.project.policy import derived_policy
from lifecycle_manager.contract.resources import MODULE_POLICIES
from lifecycle_manager_api import names
from tests.nodes.clusters import NodeClusters

STOP_SECONDS = 10.0
ROOT = Path(__file__).parents[2]


@asynccontextmanager
async def running_manager(
    world: NodeClusters, folder: Path, manager: ModuleType, environment: dict[str, str] | None = None
) -> AsyncGenerator[None, None]:
    """Run the function `objects` of a module of ours until the block ends."""
    program = Path(sys.executable).with_name("kyma-module-manager")
    options = (f"--kubeconfig={world.clusters.kcp.admin_kubeconfig}", "--health-address=127.0.0.1:0")
    command = [str(program), "run", f"{manager.__name__}:objects", *options]
    given = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    child = await start_child("module-manager", command, folder / "module-manager.log", given)
    try:
        yield
    finally:
        await child.stop(STOP_SECONDS)


@asynccontextmanager
async def allowed(
    world: NodeClusters, module: str, manifest: Path, *further: dict[str, Any], allow: tuple[dict[str, Any], ...] = ()
) -> AsyncGenerator[None, None]:
    """Have the ModulePolicy that a manifest needs until the block ends, with further cluster resources."""
    policy = load_yaml(derived_policy(manifest, module))
    policy["spec"]["clusterResources"].extend(further)
    policy["spec"]["namespacedResources"]["allow"].extend(allow)
    await world.kcp.apply(MODULE_POLICIES, module, policy, names.KCP_NAMESPACE, field_manager="operator")
    try:
        yield
    finally:
        await world.kcp.delete(MODULE_POLICIES, module, names.KCP_NAMESPACE)
