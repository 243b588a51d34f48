"""The largest text that counts as one, with the largest status beside it, is what etcd stores."""

from typing import Any

import msgspec
import pytest

from kube_runtime import Client, Invalid, RequestTooLarge, parse_manifest, stored_size
from kyma_module_manager import ObjectsRefused
from kyma_module_manager.rendering import encode_objects
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager.sync_resource.status import MAX_OBJECT_BYTES
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES
from tests.real_modules.corpus import WITHOUT, RealManifest, found

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


@pytest.mark.skipif(not found(), reason=WITHOUT)
@pytest.mark.parametrize("manifest", found(), ids=str)
async def test_sdk_accepts_of_real_manifests_what_is_stored(served: Client, manifest: RealManifest) -> None:
    """What it refuses is refused by the API server too, even without a space."""
    documents = [each.document for each in parse_manifest(manifest.texts[1]).objects]
    name = f"real-{manifest.name}"

    async def stored(text: str) -> str:
        written = document(name, spec={**SPEC, "resource": text})
        return (await served.apply(SYNC_RESOURCES, name, written, "default", field_manager="test")).spec.resource

    try:
        text = encode_objects(documents).text
    except ObjectsRefused:
        with pytest.raises((Invalid, RequestTooLarge)):
            await stored(msgspec.json.encode(documents).decode())
    else:
        assert await stored(text) == text
