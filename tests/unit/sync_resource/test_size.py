"""The status of a SyncResource fits into etcd whatever the cluster of a user says of its objects."""

import msgspec
import pytest

from kube_runtime import stored_size
from lifecycle_manager.contract.resources import SYNC_RESOURCES
from lifecycle_manager.sync_resource.status import MAX_OBJECT_BYTES
from tests.integration.kube_runtime.things import THINGS, as_text, definition, thing
from tests.kinds import CRDS
from tests.unit.sync_resource.clusters import KCP, SKR, Syncing


@pytest.mark.parametrize(
    ("objects", "letter", "size"), [(60, "y", 32_768), (2, "y", 1_400_000), (400, "\N{SNOWMAN}", 4_000)]
)
async def test_status_fits_into_etcd_whatever_users_write_into_conditions(
    world: Syncing, objects: int, letter: str, size: int
) -> None:
    await world.skr.create(CRDS, definition(), field_manager="test")
    names = [f"t{number}" for number in range(objects)]
    await world.write("m", resource=as_text(*(thing(each, SKR, text="x" * 2000) for each in names)))
    await world.reconcile("m")
    condition = {"type": "Ready", "status": "False", "reason": "No", "message": letter * size}
    for each in names:
        status = {"status": {"conditions": [condition]}}
        await world.skr.merge_patch(THINGS, each, status, SKR, subresource="status", field_manager="user")
    await world.reconcile("m")
    resource = await world.kcp.get(SYNC_RESOURCES, "m", KCP)
    assert {each.state for each in resource.status.synced} == {"Processing"}
    assert all(each.message.startswith(letter) for each in resource.status.synced)
    stored = len(msgspec.json.encode(resource.status)) + stored_size(resource.spec.resource)
    assert stored <= MAX_OBJECT_BYTES + 2 * 4 * 4_000  # and the messages of two conditions
