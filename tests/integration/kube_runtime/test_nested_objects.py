"""What a real API server stores, however deep it is nested, hides no other object from an informer."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec
import pytest

from kube_runtime import Client, Informer, ObjectKey, ObjectUnreadable, Resource
from lifecycle_manager.contract.resources import MODULE_CONFIGS, MODULE_TEMPLATES
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import as_document
from tests import builders
from tests.waiting import eventually

pytestmark = pytest.mark.parametrize("kcp", ["real"], indirect=True)


async def write(client: Client, resource: Resource[Any], key: ObjectKey, depth: int) -> None:
    """Write an object with a field of any content that is nested so deep; the answer is as deep."""
    is_config = resource is MODULE_CONFIGS
    document = as_document(builders.module_config() if is_config else builders.template())
    document["metadata"] = {"name": key.name}
    await client.create(resource, document, key.namespace, field_manager="test")
    nested = '{"apiVersion":"v1","kind":"a","a":' + '{"a":' * depth + "1" + "}" * (depth + 1)
    part, field = ("status", "moduleStatus") if is_config else ("spec", "data")
    patch = {part: {field: msgspec.Raw(nested.encode())}}
    with suppress(ObjectUnreadable):
        await client.merge_patch(resource, key.name, patch, key.namespace, subresource="status" if is_config else None)


@pytest.mark.parametrize("resource", [MODULE_CONFIGS, MODULE_TEMPLATES], ids=lambda each: each.plural)
async def test_nested_objects_on_a_real_server_hide_no_other(
    client: Client, namespace: str, resource: Resource[Any]
) -> None:
    await apply_crds(client)
    good, later = ObjectKey(namespace, "good"), ObjectKey(namespace, "later")
    await write(client, resource, good, 1)
    for depth in (90, 150, 900, 1_500, 5_000):
        await write(client, resource, ObjectKey(namespace, f"nested-{depth}"), depth)
    for following in range(2):  # the second one is another replica, which starts with a list
        informer = Informer(client, resource, namespace=namespace)
        task = asyncio.create_task(informer.run())
        try:
            await informer.wait_synced(30)
            assert informer.cache.get(good) is not None
            assert informer.cache.get(ObjectKey(namespace, "nested-90")) is not None
            if not following:
                await write(client, resource, ObjectKey(namespace, "nested-later"), 2_000)
                await write(client, resource, later, 1)
            await eventually(partial(informer.cache.__contains__, later))
            assert informer.last_error is None
        finally:
            task.cancel()
            await asyncio.wait([task])
