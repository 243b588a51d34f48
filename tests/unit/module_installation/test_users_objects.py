"""What users have to delete before a module can go: their objects, and not those of the Module Manager."""

from typing import Any

from kube_simulation import serve_simulation
from lifecycle_manager.module_installation.reading import objects_of_kinds
from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import listed
from tests.clusters import simulated_clusters
from tests.kinds import CRDS
from tests.modules import group_of, module_crs, operator

SKR, GARDENS = names.SKR_NAMESPACE, module_crs("garden")
OWNER = "kcp-system/demo-garden-mine"


def garden(name: str, **annotations: str) -> dict[str, Any]:
    marks = {f"{names.GROUP}/{key.replace('_', '-')}": value for key, value in annotations.items()}
    metadata = {"name": name, "annotations": marks}
    return {"apiVersion": f"{group_of('garden')}/v1", "kind": "Garden", "metadata": metadata, "spec": {}}


async def test_objects_of_the_module_manager_are_not_the_users() -> None:
    async with serve_simulation() as simulation, simulated_clusters(simulation) as (_, skr):
        await skr.create(CRDS, operator("garden", "1.0.0")[0], field_manager="test")
        for each in (garden("roses"), garden("mine", owned_by=OWNER), garden("other", owned_by="kcp-system/other")):
            await skr.create(GARDENS, each, SKR, field_manager="test")

        assert await objects_of_kinds(skr, [GARDENS], (), {OWNER}) == (f"Garden {SKR}/other", f"Garden {SKR}/roses")
        assert len(await objects_of_kinds(skr, [GARDENS], (), ())) == 3


async def test_of_many_objects_the_first_are_named() -> None:
    async with serve_simulation() as simulation, simulated_clusters(simulation) as (_, skr):
        await skr.create(CRDS, operator("garden", "1.0.0")[0], field_manager="test")
        for number in range(12):
            await skr.create(GARDENS, garden(f"garden-{number:02}"), SKR, field_manager="test")
        found = await objects_of_kinds(skr, [GARDENS], (), ())
        assert listed(found).endswith(f"Garden {SKR}/garden-08, 3 more")
