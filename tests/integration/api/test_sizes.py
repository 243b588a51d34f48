"""The largest text that counts as one, with the largest status beside it, is what etcd stores."""

from typing import Any

import pytest

from kube_runtime import Client, Invalid, RequestTooLarge, stored_size
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.sync_resource.status import MAX_OBJECT_BYTES
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES

SPEC = {"kyma": "demo", "module": "keda"}


def document(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "namespace": "default"}, **more}


@pytest.mark.parametrize("letter", ["x", "\n", "<", "\u2028", "\x01"], ids=ascii)
async def test_largest_text_is_stored_with_the_largest_status(served: Client, letter: str) -> None:
    name = f"large-{ord(letter)}"
    text = letter * ((MAX_TEXT_BYTES - 2) // (stored_size(letter) - 2))
    written = document(name, spec={**SPEC, "resource": text})
    await served.apply(MODULE_CONFIGS, name, written, "default", field_manager="test")
    await served.apply(SYNC_RESOURCES, name, written, "default", field_manager="test")
    found = {"group": "", "version": "v1", "kind": "Pod", "namespace": "", "name": "a", "state": "Error"}
    status = {"synced": [{**found, "message": "x" * (MAX_OBJECT_BYTES - MAX_TEXT_BYTES)}]}

    stored = await served.apply(
        SYNC_RESOURCES, name, document(name, status=status), "default", field_manager="other", subresource="status"
    )

    assert stored.spec.resource == text
    assert len(stored.status.synced[0].message) == MAX_OBJECT_BYTES - MAX_TEXT_BYTES


async def test_text_beyond_the_limit_is_refused_by_the_crd_or_by_etcd(served: Client) -> None:
    longer = document("longer", spec={**SPEC, "resource": "x" * (MAX_TEXT_BYTES + 1)})
    with pytest.raises(Invalid) as refused:
        await served.apply(SYNC_RESOURCES, "longer", longer, "default", field_manager="test")
    assert ("spec.resource", "FieldValueTooLong") in {(each.field, each.reason) for each in refused.value.causes}
    escaped = document("escaped", spec={**SPEC, "resource": "<" * (MAX_TEXT_BYTES // 3)})
    with pytest.raises(RequestTooLarge):
        await served.apply(SYNC_RESOURCES, "escaped", escaped, "default", field_manager="test")
