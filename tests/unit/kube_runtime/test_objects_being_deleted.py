"""An object that is being deleted while it is applied is applied again, also where its document is known."""

from typing import Any

import pytest

from kube_runtime import Applier, Client, parse_objects
from tests.integration.kube_runtime.things import as_text
from tests.kinds import CONFIG_MAPS, NAMESPACES
from tests.unit.kube_runtime.test_objects_of_refused_kinds import names_of

CONFIG: dict[str, Any] = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "shop"}}


@pytest.mark.parametrize("recheck", [False, True])
async def test_object_that_was_being_deleted_is_created_once_it_is_gone(client: Client, recheck: bool) -> None:
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}}, field_manager="somebody")
    held = {"metadata": {**CONFIG["metadata"], "finalizers": ["example.com/held"]}}
    await client.create(CONFIG_MAPS, held, "shop", field_manager="somebody")
    await client.delete(CONFIG_MAPS, "one", "shop")
    applier, objects = Applier(client, field_manager="test"), parse_objects(as_text(CONFIG))
    result = await applier.apply(objects)
    assert [each.error for each in result.outcomes] == [None]

    await client.merge_patch(CONFIG_MAPS, "one", {"metadata": {"finalizers": None}}, "shop")
    assert await names_of(client, CONFIG_MAPS) == []
    result = await applier.apply(objects, result.inventory, recheck=recheck)
    assert await names_of(client, CONFIG_MAPS) == ["one"]
    assert [each.action for each in result.outcomes] == ["created"]


async def test_namespace_that_was_being_deleted_is_created_for_what_failed_in_it(client: Client) -> None:
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    await client.create(NAMESPACES, namespace, field_manager="somebody")
    held = {"metadata": {"name": "held", "namespace": "shop", "finalizers": ["example.com/held"]}}
    await client.create(CONFIG_MAPS, held, "shop", field_manager="somebody")
    await client.delete(NAMESPACES, "shop")
    applier, objects = Applier(client, field_manager="test"), parse_objects(as_text(namespace, CONFIG))
    result = await applier.apply(objects)
    assert [each.error is None for each in result.outcomes] == [True, False]

    await client.merge_patch(CONFIG_MAPS, "held", {"metadata": {"finalizers": None}}, "shop")
    result = await applier.apply(objects, result.inventory, recheck=False)
    assert [each.action for each in result.outcomes] == ["created", "created"]


async def test_document_of_an_object_that_was_being_deleted_is_applied_again_and_again(client: Client) -> None:
    """As `kubectl get -o yaml` shows it."""
    await client.create(NAMESPACES, {"metadata": {"name": "shop"}}, field_manager="somebody")
    saved = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": 30}
    applier = Applier(client, field_manager="test")
    for action, text in (("created", "a"), ("changed", "b")):
        document = {**CONFIG, "metadata": {**CONFIG["metadata"], **saved}, "data": {"text": text}}
        result = await applier.apply(parse_objects(as_text(document)))
        assert [(each.action, each.error) for each in result.outcomes] == [(action, None)]
