"""Objects of a kind are not applied where its CRD in the same set was refused: the kind may be somebody else's."""

from typing import Any

from kube_runtime import Applier, Client, parse_objects
from kube_simulation import Refuse, Refused, SimulatedCluster
from tests.integration.kube_runtime.things import THINGS, as_text, definition, thing
from tests.kinds import CONFIG_MAPS, CRDS, NAMESPACES

CONFIG = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "config", "namespace": "shop"}}


async def names_of(client: Client, resource: Any) -> list[str]:
    return [each["metadata"]["name"] for each in (await client.list(resource, "shop")).items]


async def test_object_waits_for_its_crd_and_is_pruned_by_no_failure_of_it(
    client: Client, cluster: SimulatedCluster
) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}}, field_manager="somebody")
    await client.create(CRDS, definition(), field_manager="somebody")
    objects = parse_objects(as_text(definition(), thing("evil", "shop"), CONFIG))
    applier = Applier(client, field_manager="test", labels={"ours": "yes"})
    refused = Refused(403, "Forbidden", "not yours")
    refusal = Refuse(lambda each: each.name == definition()["metadata"]["name"], refused=refused)
    with cluster.ruled_by(refusal):
        result = await applier.apply(objects)
    assert [each.action for each in result.outcomes] == ["failed", "failed", "created"]
    assert [each.name for each in result.inventory] == ["config"]
    assert (await names_of(client, THINGS), await names_of(client, CONFIG_MAPS)) == ([], ["config"])

    result = await applier.apply(objects, result.inventory)
    assert await names_of(client, THINGS) == ["evil"]
    with cluster.ruled_by(refusal):
        result = await Applier(client, field_manager="test", labels={"ours": "yes"}).apply(objects, result.inventory)
    assert len(result.inventory) == 3
    assert await names_of(client, THINGS) == ["evil"]
