"""A Namespace or CRD is deleted only where the server has said of every kind that nothing is in it."""

import tracemalloc
from typing import Any

import msgspec
import pytest

from kube_runtime import Applier, Client, InventoryEntry, ObjectOutcome, parse_objects
from kube_runtime.apply.contents import contents_of
from kube_runtime.client.transport import ServerResponse, Transport
from kube_simulation import Refuse, Refused, SimulatedCluster
from tests.integration.kube_runtime.things import as_text, definition, thing
from tests.kinds import CONFIG_MAPS, NAMESPACES

NAMESPACE = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
ENTRY = InventoryEntry("", "v1", "Namespace", "", "shop")


@pytest.fixture
async def applier(client: Client) -> Applier:
    applies = Applier(client, field_manager="test", labels={"ours": "yes"})
    await applies.apply(parse_objects(as_text(NAMESPACE)))
    return applies


async def removed(applier: Applier, entry: InventoryEntry = ENTRY) -> ObjectOutcome:
    (outcome,) = (await applier.delete([entry])).outcomes
    return outcome


async def create(client: Client, **metadata: Any) -> None:
    document = {"metadata": {"namespace": "shop", **metadata}}
    await client.create(CONFIG_MAPS, document, "shop", field_manager="user")


async def test_namespace_without_objects_is_deleted(applier: Applier) -> None:
    assert (await removed(applier)).action == "pruned"


async def test_namespace_stays_with_its_objects_named_and_in_the_inventory(applier: Applier, client: Client) -> None:
    for number in range(12):
        await create(client, name=f"mine-{number:02}")
    result = await applier.delete([ENTRY])
    (outcome,) = result.outcomes
    assert (outcome.action, outcome.contents[0]) == ("held", "ConfigMap mine-00")
    assert (len(outcome.contents), outcome.contents[-2:]) == (10, ("ConfigMap mine-08", "3 more"))
    assert (result.held, result.inventory, result.failed) == ((outcome,), (ENTRY,), ())
    assert (await client.get(NAMESPACES, "shop"))["metadata"].get("deletionTimestamp") is None


async def test_custom_resource_in_a_namespace_keeps_it(applier: Applier, client: Client) -> None:
    await Applier(client, field_manager="user").apply(parse_objects(as_text(definition(), thing("one", "shop"))))
    assert (await removed(applier)).contents == ("Thing one",)


async def test_crd_with_objects_is_not_deleted(applier: Applier, client: Client) -> None:
    await applier.apply(parse_objects(as_text(definition())))
    entry = InventoryEntry("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "", "things.things.example.com")
    await Applier(client, field_manager="user").apply(parse_objects(as_text(thing("one", "shop"))))
    outcome = await removed(applier, entry)
    assert (outcome.action, outcome.contents) == ("held", ("Thing shop/one",))
    await client.delete(await client.mapper.resource("things.example.com/v1", "Thing"), "one", "shop")
    assert (await removed(applier, entry)).action == "pruned"


@pytest.mark.parametrize("status", [404, 429, 500, 503])
@pytest.mark.parametrize("refused", ["/apis", "/api/v1", "/apis/apps/v1", "/api/v1/namespaces/shop/secrets"])
async def test_namespace_whose_contents_are_not_known_is_not_deleted(
    applier: Applier, client: Client, cluster: SimulatedCluster, status: int, refused: str
) -> None:
    rule = Refuse(lambda it: it.path == refused, refused=Refused(status, "Failed", "out of order"))
    with cluster.ruled_by(rule):
        outcome = await removed(applier)
    assert outcome.action == "failed"
    is_of_kind = status == 404 and refused.endswith("/secrets")
    assert ("does not know the kind" if is_of_kind else "out of order") in str(outcome.error)
    assert await client.get(NAMESPACES, "shop")


async def test_kind_that_may_not_be_listed_counts_as_in_use(applier: Applier, cluster: SimulatedCluster) -> None:
    forbidden = Refuse(lambda it: it.path.endswith("/secrets"), refused=Refused(403, "Forbidden", "no rights"))
    with cluster.ruled_by(forbidden):
        outcome = await removed(applier)
    assert outcome.action == "held"
    assert outcome.contents[0].startswith("secrets that may not be listed: ")


@pytest.mark.parametrize(("kind", "plural"), [("Lease", "leases"), ("Event", "events"), ("Endpoints", "endpoints")])
async def test_custom_resource_whose_kind_is_called_as_a_record_is_an_object_of_users(
    applier: Applier, client: Client, kind: str, plural: str
) -> None:
    users = Applier(client, field_manager="user")
    await users.apply(parse_objects(as_text(definition(plural, kind), thing("mine", "shop", kind))))
    outcome = await removed(applier)
    assert (outcome.action, outcome.contents) == ("held", (f"{kind} mine",))


async def test_names_of_any_number_and_length_do_not_fill_the_memory(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    kinds = [
        {"name": f"things{number}", "kind": "Thing", "namespaced": True, "verbs": ["list", "create"]}
        for number in range(10)
    ]

    async def answer(_self: Transport, _method: str, target: str, **_: Any) -> ServerResponse:
        if target == "/api/v1":
            return ServerResponse(200, msgspec.json.encode({"resources": kinds}))
        page = int(target.rpartition("continue=")[2]) + 1 if "continue=" in target else 1
        metadata = {"resourceVersion": "1", "continue": str(page) if page < 10 else ""}
        owned = {"metadata": {"name": "y", "ownerReferences": [{}] * 10_000}}
        items = [{"metadata": {"name": "x" * 1_000_000}}, owned]
        return ServerResponse(200, msgspec.json.encode({"metadata": metadata, "items": items}))

    monkeypatch.setattr(Transport, "request", answer)
    tracemalloc.start()
    found = await contents_of(client, ENTRY, {})
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert (len(found), len(found[0]), found[-1]) == (10, 600, "91 more")
    assert peak < 30_000_000
