"""Real operators, as others publish them: installed, upgraded and removed; nothing is left, nothing foreign touched."""

import asyncio

import pytest

from kube_runtime import InventoryEntry, KindUnknown, NotFound, parse_objects
from kyma_local.sources import SourceFailed
from lifecycle_manager.object_set.inventory import inventory_of
from tests.integration.manifest.published import OPERATORS, Operator
from tests.kinds import NAMESPACES
from tests.manifest_clusters import Modules

Kinds = set[tuple[str, str]]


async def all_of(world: Modules, kinds: Kinds) -> dict[tuple[str, str, str, str], tuple[str, str]]:
    """Return every object of these kinds, whoever it belongs to, with its identity and revision.

    Without what goes with a Namespace that another test has deleted.
    """
    found = {}
    namespaces = (await world.skr.list(NAMESPACES)).items
    going = {each["metadata"]["name"] for each in namespaces if each["metadata"].get("deletionTimestamp")}
    for api_version, kind in sorted(kinds):
        try:
            revisions = await world.skr.list_revisions(await world.skr.mapper.resource(api_version, kind))
        except (KindUnknown, NotFound):
            continue
        for each in revisions:
            metadata = each.metadata
            if (metadata.name if kind == "Namespace" else metadata.namespace) not in going:
                found[api_version, kind, metadata.namespace, metadata.name] = (metadata.uid, metadata.resource_version)
    return found


async def brought(world: Modules) -> set[InventoryEntry]:
    manifest = await world.manifest()
    assert manifest is not None
    return set(inventory_of(manifest))


async def missing(world: Modules, entries: set[InventoryEntry]) -> set[InventoryEntry]:
    gone = set()
    for entry in entries:
        try:
            resource = await world.skr.mapper.resource(entry.api_version, entry.kind)
            await world.skr.get(resource, entry.name, entry.namespace or None)
        except (KindUnknown, NotFound):
            gone.add(entry)
    return gone


@pytest.mark.parametrize("operator", OPERATORS, ids=str)
async def test_operator_of_others_comes_changes_and_goes(world: Modules, operator: Operator) -> None:
    try:
        texts = await asyncio.to_thread(operator.texts)
    except SourceFailed as error:
        pytest.skip(f"{operator} can't be fetched: {error}")
    old, new = map(parse_objects, texts)
    kinds = {(each.api_version, each.kind) for each in (*old, *new)}
    group, kind, namespace, name = operator.manager
    manager = {"group": group, "version": "v1", "kind": kind, "namespace": namespace, "name": name}
    before = await all_of(world, kinds)
    had: set[InventoryEntry] = set()
    for text, size in zip(texts, (len(old), len(new)), strict=True):
        await world.want_text(text, manager=manager)
        await world.reconcile()
        assert await world.state() == ("Ready", "ModuleReady"), (await world.condition()).message
        has = await brought(world)
        assert len(has) == size >= operator.objects
        assert not await missing(world, has)
        assert await missing(world, had - has) == had - has
        had = has
    await world.delete()
    await world.reconcile_until_gone()
    assert await missing(world, had) == had
    assert await all_of(world, kinds) == before
