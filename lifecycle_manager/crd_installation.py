"""Installing CustomResourceDefinitions and other objects that an administrator brings to a cluster."""

from pathlib import Path

from kube_runtime import Applier, Client, parse_objects
from lifecycle_manager_api.crds import all_crds, crd_yaml

FIELD_MANAGER = "klm"


async def install_crds(kubeconfig: Path) -> tuple[str, ...]:
    """Apply every CRD to the cluster of a kubeconfig; return what was done, a line each. Raises KubeError."""
    async with await Client.from_environment(kubeconfig) as client:
        return await apply_crds(client)


async def apply_crds(client: Client) -> tuple[str, ...]:
    """Apply every CRD and wait until each is served; return what was done, a line each. Raises KubeError."""
    return await apply_objects(client, crd_yaml(*all_crds()))


async def apply_objects(client: Client, text: str) -> tuple[str, ...]:
    """Apply the objects in a YAML text; return what was done, a line each. Raises KubeError at the first failure."""
    result = await Applier(client, field_manager=FIELD_MANAGER).apply(parse_objects(text), (), prune=False)
    result.raise_first_failure()
    return tuple(f"{outcome.entry.kind} {outcome.entry.name}: {outcome.action}" for outcome in result.outcomes)
