"""A CRD that is served stays applied although a name of it, which nobody needs, is taken meanwhile."""

import pytest

from kube_runtime import Applier, Client, parse_objects
from tests.integration.kube_runtime.things import THINGS, as_text, definition, thing
from tests.kinds import CRDS, NAMESPACES
from tests.unit.kube_runtime.test_objects_of_refused_kinds import client, cluster, names_of

__all__ = ["client", "cluster"]


@pytest.mark.parametrize("kind", ["", "Other"], ids=["short-name", "kind"])
async def test_crd_that_is_served_has_failed_only_where_its_kind_is_not_its_own(client: Client, kind: str) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}}, field_manager="somebody")
    objects = parse_objects(as_text(definition(), thing("one", "shop")))
    first = await Applier(client, field_manager="test").apply(objects)
    crd = await client.get(CRDS, definition()["metadata"]["name"])
    taken = {"type": "NamesAccepted", "status": "False", "reason": "ShortNamesConflict", "message": "it is in use"}
    conditions = [each for each in crd["status"]["conditions"] if each["type"] != "NamesAccepted"]
    accepted = crd["status"]["acceptedNames"] | ({"kind": kind} if kind else {})
    status = {"status": {**crd["status"], "acceptedNames": accepted, "conditions": [*conditions, taken]}}
    await client.merge_patch(CRDS, crd["metadata"]["name"], status, subresource="status")
    result = await Applier(client, field_manager="test").apply(objects, first.inventory)
    assert [each.error is None for each in result.outcomes] == ([False, False] if kind else [True, True])
    assert await names_of(client, THINGS) == ["one"]
