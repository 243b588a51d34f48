"""What a real API server says of objects that are not there, or not as they were, and what is concluded from it."""

import copy
import uuid
from typing import Any

import pytest

from kube_runtime import (
    Applier,
    Client,
    InventoryEntry,
    JsonObject,
    KindUnknown,
    KubernetesObject,
    ManifestInvalid,
    NotFound,
    NotServed,
    Resource,
    find_object,
)
from tests.kinds import CONFIG_MAPS, CRDS, crd_of
from tests.waiting import eventually


class Kind:
    """A kind of its own, whose versions and scope a test changes."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.group = f"g{uuid.uuid4().hex[:8]}.example.com"

    def crd(self, *, served: tuple[str, ...] = ("v1",), stored: str = "v1", scope: str = "Namespaced") -> JsonObject:
        made = crd_of(self.group, "Plant", *served, stored=stored, scope=scope)
        if not served:
            made["spec"]["versions"][0]["served"] = False
        return made

    async def define(self, **given: Any) -> None:
        document = self.crd(**given)
        applier = Applier(self.client, field_manager="test")
        result = await applier.apply([KubernetesObject.of(document)], prune=False)
        result.raise_first_failure()
        wanted = set(given.get("served", ("v1",)))

        async def is_in_force() -> bool:
            return {version for version in ("v1", "v1beta1", "v2") if await self._is_served(version)} == wanted

        await eventually(is_in_force, what=f"the server serves {wanted}")

    async def _is_served(self, version: str) -> bool:
        try:
            await self.client.list(self.resource(version))
        except (NotFound, NotServed, KindUnknown):
            return False
        return True

    async def delete_crd(self) -> None:
        await self.client.delete(CRDS, f"plants.{self.group}")
        while await find_object(self.client, InventoryEntry(*CRD_OF, "", f"plants.{self.group}")) is not None:
            pass

    def entry(self, version: str = "v1", namespace: str = "default", name: str = "p") -> InventoryEntry:
        return InventoryEntry(self.group, version, "Plant", namespace, name)

    def resource(self, version: str = "v1", *, namespaced: bool = True) -> Resource[JsonObject]:
        return Resource.dynamic(self.group, version, "Plant", "plants", namespaced)

    async def create(self, version: str = "v1", namespace: str | None = "default") -> None:
        document = {"metadata": {"name": "p"}, "spec": {"x": 1}}
        resource = self.resource(version, namespaced=namespace is not None)
        await self.client.create(resource, document, namespace, field_manager="user")


CRD_OF = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition")


@pytest.fixture
def kind(client: Client) -> Kind:
    return Kind(client)


async def test_missing_object_is_told_from_a_kind_that_is_not_served(client: Client, kind: Kind) -> None:
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "nothing", "default")
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "nothing", "no-such-namespace")
    for resource in (
        kind.resource(),
        Resource.dynamic("apps", "v1", "Plant", "plants", namespaced=True),
        Resource.dynamic("apps", "v7", "Deployment", "deployments", namespaced=True),
        Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=False),
    ):
        with pytest.raises(KindUnknown):
            await client.get(resource, "p", "default")
    await kind.define()
    with pytest.raises(NotFound):
        await client.get(kind.resource(), "p", "default")
    for wrong in (kind.resource("v2"), kind.resource(namespaced=False)):
        with pytest.raises(KindUnknown):
            await client.get(wrong, "p", "default")
        with pytest.raises(KindUnknown):
            await client.merge_patch(wrong, "p", {}, "default")
        with pytest.raises(KindUnknown):
            await client.delete(wrong, "p", "default")


async def test_object_is_found_in_another_version_than_the_recorded_one(client: Client, kind: Kind) -> None:
    await kind.define(served=("v1", "v1beta1"))
    await kind.create()
    assert await find_object(client, kind.entry("v1beta1")) is not None
    await kind.define(served=("v1",))
    found = await find_object(client, kind.entry("v1beta1"))
    assert found is not None
    assert found.resource.version == "v1"


async def test_object_is_found_where_the_storage_version_is_not_served(client: Client, kind: Kind) -> None:
    await kind.define(served=("v1",), stored="v2")
    await kind.create()
    assert await find_object(client, kind.entry("v2")) is not None


async def test_object_of_a_kind_that_is_served_in_no_version_is_not_known_to_be_absent(
    client: Client, kind: Kind
) -> None:
    await kind.define()
    await kind.create()
    await kind.define(served=())
    for _ in range(2):
        with pytest.raises(KindUnknown):
            await find_object(client, kind.entry())
    await kind.define()
    assert await find_object(client, kind.entry()) is not None


async def test_object_whose_kind_is_gone_is_absent(client: Client, kind: Kind) -> None:
    assert await find_object(client, kind.entry()) is None
    await kind.define()
    await kind.create()
    assert await find_object(client, kind.entry()) is not None
    await kind.delete_crd()
    assert await find_object(client, kind.entry()) is None


@pytest.mark.parametrize("first", ["Namespaced", "Cluster"])
async def test_kind_that_is_created_again_with_another_scope_is_looked_up_again(
    client: Client, kind: Kind, first: str
) -> None:
    second = {"Namespaced": "Cluster", "Cluster": "Namespaced"}[first]
    await kind.define(scope=first)
    await kind.create(namespace="default" if first == "Namespaced" else None)
    old = kind.entry(namespace="default" if first == "Namespaced" else "")
    assert await find_object(client, old) is not None
    # by another client, as a user does
    other = copy.copy(client)
    await other.delete(CRDS, f"plants.{kind.group}")
    plant = {"apiVersion": f"{kind.group}/v1", "kind": "Plant", "metadata": {"name": "p"}, "spec": {"x": 2}}
    applier = Applier(client, field_manager="test")
    while True:
        try:
            await client.create(CRDS, kind.crd(scope=second), field_manager="user")
            break
        except Exception as error:  # the former one is still being deleted
            if "AlreadyExists" not in str(error):
                raise
    while (result := await applier.apply([KubernetesObject.of(plant)], [old], prune=False)).failed:
        assert isinstance(result.first_failure, KindUnknown)
    (outcome,) = result.outcomes[:1]
    assert bool(outcome.entry.namespace) == (second == "Namespaced")
    assert await find_object(client, old) is None
    assert await find_object(client, outcome.entry) is not None


@pytest.mark.parametrize("name", [".", "..", "a/b", "a%2fb"])
@pytest.mark.parametrize("part", ["name", "namespace"])
async def test_name_that_no_server_stores_fails_one_object_and_can_be_removed(
    client: Client, namespace: str, name: str, part: str
) -> None:
    """An inventory of before may hold such a name, which no text that is read has any more."""
    metadata = {"name": "c", "namespace": namespace, part: name}
    bad = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    with pytest.raises(ManifestInvalid, match=f"metadata.{part}"):
        KubernetesObject.of(bad)
    good = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "beside", "namespace": namespace}}
    applier = Applier(client, field_manager="test", labels={"test": "absence"})
    unchecked = KubernetesObject("v1", "ConfigMap", metadata["namespace"], metadata["name"], bad, 0)
    result = await applier.apply([unchecked, KubernetesObject.of(good)])
    assert [each.action for each in result.outcomes] == ["failed", "created"]
    assert "invalid name" in (result.outcomes[0].error or "")
    inventory = {*result.inventory, result.outcomes[0].entry}
    assert (await applier.delete(inventory)).inventory == ()
    with pytest.raises(NotFound):
        await client.get(CONFIG_MAPS, "beside", namespace)
