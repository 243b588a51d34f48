"""Objects stored in an older version of the API are read without loss."""

from typing import Any

import msgspec
import pytest

from kube_runtime import Client, NotFound, NotServed, Resource
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import Kyma, Manifest, ModuleTemplate, Watcher, crds, decode
from lifecycle_manager_api.kinds import ApiObject
from tests.integration.api.objects import COMPLETE, in_namespace, read
from tests.kinds import CRDS
from tests.waiting import eventually

KINDS: dict[str, type[ApiObject]] = {
    "kyma": Kyma,
    "module-template": ModuleTemplate,
    "manifest": Manifest,
    "watcher": Watcher,
}


@pytest.mark.parametrize("name", KINDS)
async def test_object_stored_in_v1beta1_is_read_as_v1beta2(client: Client, namespace: str, name: str) -> None:
    kind = KINDS[name]
    old = Resource.dynamic(kind.GROUP, "v1beta1", kind.KIND, kind.PLURAL, namespaced=True)
    new = Resource.dynamic(kind.GROUP, kind.VERSION, kind.KIND, kind.PLURAL, namespaced=True)
    document = in_namespace(read(COMPLETE[name]), namespace) | {"apiVersion": old.api_version}
    try:
        await _serve_v1beta1(client, kind)
        stored = await _create(client, old, document, namespace)
    finally:  # the other tests of this worker need them
        await apply_crds(client)

    found = await eventually(lambda: _served(client, new, stored["metadata"]["name"], namespace), within=60)
    assert found["spec"] == stored["spec"]
    assert found["metadata"]["uid"] == stored["metadata"]["uid"]
    assert isinstance(decode(kind, msgspec.json.encode(found)), kind)


async def _serve_v1beta1(client: Client, kind: type[ApiObject]) -> None:
    """Have the API server serve and store the version of before, as an older control plane did."""
    crd = crds.crd_for(kind)
    for version in crd["spec"]["versions"]:
        version["served"] = version["storage"] = version["name"] == "v1beta1"
    await client.apply(CRDS, crd["metadata"]["name"], crd, field_manager="klm")


async def _create(
    client: Client, resource: Resource[dict[str, Any]], document: dict[str, Any], namespace: str
) -> dict[str, Any]:
    async def made() -> dict[str, Any] | None:
        try:
            return await client.create(resource, document, namespace, field_manager="test")
        except (NotFound, NotServed):  # the API server takes a moment to serve another version
            return None

    return await eventually(made, within=60)


async def _served(
    client: Client, resource: Resource[dict[str, Any]], name: str, namespace: str
) -> dict[str, Any] | None:
    try:
        return await client.get(resource, name, namespace)
    except (NotFound, NotServed):
        return None
