"""Installing CustomResourceDefinitions and other objects that an administrator brings to a cluster."""

from collections.abc import Iterable
from pathlib import Path

from kube_runtime import Applier, Client, KubernetesObject, dump_yaml, parse_objects
from lifecycle_manager_api.crds import all_crds

FIELD_MANAGER = "klm"


async def install_crds(kubeconfig: Path) -> tuple[str, ...]:
    """Apply every CRD to the cluster of a kubeconfig; return what was done, a line each. Raises KubeError."""
    async with await Client.from_environment(kubeconfig) as client:
        return await apply_crds(client)


async def apply_crds(client: Client) -> tuple[str, ...]:
    """Apply every CRD and wait until each is served; return what was done, a line each. Raises KubeError."""
    return await _apply(client, (KubernetesObject.of(crd, index) for index, crd in enumerate(all_crds())))


def crds_as_yaml() -> str:
    return "---\n".join(dump_yaml(crd) for crd in all_crds())


def write_crds(folder: Path) -> tuple[Path, ...]:
    """Write every CRD into a file of a folder, named after its plural and group; return the files."""
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for crd in all_crds():
        file = folder / f"{crd['spec']['group']}_{crd['spec']['names']['plural']}.yaml"
        file.write_text(dump_yaml(crd))
        written.append(file)
    return tuple(written)


async def apply_objects(client: Client, text: str) -> tuple[str, ...]:
    """Apply the objects in a YAML text; return what was done, a line each. Raises KubeError at the first failure."""
    return await _apply(client, parse_objects(text))


async def _apply(client: Client, objects: Iterable[KubernetesObject]) -> tuple[str, ...]:
    result = await Applier(client, field_manager=FIELD_MANAGER).apply(tuple(objects), (), prune=False)
    result.raise_first_failure()
    return tuple(f"{outcome.entry.kind} {outcome.entry.name}: {outcome.action}" for outcome in result.outcomes)
