"""Real manifests through the whole path: a registry, the catalog, a Kyma, a Manifest, and a real API server."""

import base64
import re
from collections.abc import AsyncIterator, Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
import pytest_asyncio

from kube_runtime import InventoryEntry, KubernetesObject, parse_manifest, stored_size
from lifecycle_manager.contract.resources import FIELD_MANAGER
from lifecycle_manager_api import names
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES
from lifecycle_manager_api.known_kinds import kind_refusal
from tests.real_modules.comparison import comparable, differences
from tests.real_modules.corpus import WITHOUT, RealManifest, found
from tests.real_modules.oracle import Kubectl
from tests.real_modules.product import Landscape, open_landscape

Document = dict[str, Any]
CRD = "CustomResourceDefinition"
RULES = frozenset({"allOf", "anyOf", "not", "oneOf", "minProperties", "x-kubernetes-validations"})
"""By which a schema may refuse an object that is empty, or one of another name."""
MANIFESTS = found()
pytestmark = pytest.mark.skipif(not MANIFESTS, reason=WITHOUT)


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def landscape(ours: Path) -> AsyncIterator[Landscape]:
    async with open_landscape(ours) as landscape:
        yield landscape


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def kubectl(ours: Path, tmp_path_factory: pytest.TempPathFactory) -> Kubectl:
    return await Kubectl.on(ours, tmp_path_factory.mktemp("discovery"))


@pytest.mark.parametrize("real", MANIFESTS, ids=str)
async def test_real_module_comes_changes_and_goes(landscape: Landscape, kubectl: Kubectl, real: RealManifest) -> None:
    """Version 3 is the first one again: only a rollout that allows it goes back to a lower version."""
    module, texts = module_of(real), real.texts
    known: set[InventoryEntry] = set()
    for version, text in (("1.0.0", texts[0]), ("2.0.0", texts[1]), ("3.0.0", texts[0])):
        await landscape.offer(module, version, text)
        await landscape.enable(module)
        entries = await landscape.installed(module, version)
        await landscape.rests(entries)
        assert len(entries) == len({(each.kind, each.name, each.namespace) for each in objects_in(text)})
        assert await unlike_kubectl(landscape, kubectl, text, entries) == []
        assert await landscape.left(known.difference(entries)) == []
        known.update(entries)
    await landscape.enable()
    await landscape.until_gone(module)
    assert await landscape.left(known) == []


@pytest.mark.parametrize("real", MANIFESTS, ids=str)
async def test_real_module_comes_by_sync_resources_and_goes(landscape: Landscape, real: RealManifest) -> None:
    text = real.texts[1]
    async with landscape.carrying("carrier"):
        entries = await landscape.sync("carrier", parts := parts_of(text))
        await landscape.rests(entries, "sync-resource", len(parts))
        assert len(entries) == len(objects_in(text))
    assert await landscape.left(entries) == []


@pytest.mark.parametrize("real", MANIFESTS, ids=str)
async def test_object_of_a_user_keeps_a_real_module(landscape: Landscape, real: RealManifest) -> None:
    """The default Module CR goes with the module, that of a user stays until they delete it, and so do the CRDs."""
    module, text = module_of(real, "kept"), real.texts[1]
    if (own := smallest_cr(text)) is None:
        pytest.skip("none of its kinds has objects without a content")
    user_cr = {**own, "metadata": {"name": "of-a-user"}}
    await landscape.offer(module, "1.0.0", text, own)
    await landscape.enable(module)
    entries = await landscape.installed(module, "1.0.0")
    default, of_user = await landscape.entry_of(own), await landscape.entry_of(user_cr)
    assert await landscape.left([default]) == [default]
    await landscape.create(user_cr)
    await landscape.enable()
    await landscape.waits_for_users(module)
    assert await landscape.left([default, of_user]) == [of_user]
    assert set(await landscape.left(entries)) == set(entries)
    await landscape.delete(of_user)
    await landscape.until_gone(module)
    assert await landscape.left(entries) == []


def module_of(real: RealManifest, *more: str) -> str:
    """Return a name that a module may have."""
    return "-".join([re.sub("[^a-z]", "", real.name), *more])


def objects_in(text: str) -> list[KubernetesObject]:
    """Return the objects of a manifest, without a Namespace that Lifecycle Manager brings to each cluster."""
    common = ("Namespace", names.SKR_NAMESPACE)
    return [each for each in parse_manifest(text).objects if (each.kind, each.name) != common]


def parts_of(text: str) -> list[str]:
    """Return the objects as texts that SyncResources may have, what others need first; as JSON, which is smaller."""
    parts: list[str] = []
    for each in sorted(objects_in(text), key=lambda each: each.kind not in ("Namespace", CRD)):
        document = f"{msgspec.json.encode(each.document).decode()}\n"
        if not parts or stored_size(f"{parts[-1]}---\n{document}") > MAX_TEXT_BYTES:
            parts.append(document)
        else:
            parts[-1] += f"---\n{document}"
    return parts


def smallest_cr(text: str) -> Document | None:
    """Return an object of a kind of the manifest that may be a Module CR, needs no content and asks no webhook."""
    documents = [each.document for each in parse_manifest(text).objects]
    asked = {group for each in documents for hook in each.get("webhooks") or () for group in groups_of(hook)}
    for each in documents:
        spec: Document = each.get("spec") or {}
        if each["kind"] != CRD or {spec["group"], "*"} & asked or "webhook" in spec.get("conversion", {}):
            continue
        version = next(version for version in spec["versions"] if version["storage"])
        if kind_refusal(f"{spec['group']}/{version['name']}", spec["names"]["kind"]) is not None:
            continue
        schema = version["schema"]["openAPIV3Schema"]
        fields = schema.get("properties", {})
        content = fields.get("spec", {})
        required = {*schema.get("required", ())} - {"spec"} or content.get("required")
        if len(spec["versions"]) == 1 and not required and not RULES & {*schema, *content}:
            kind = {"apiVersion": f"{spec['group']}/{version['name']}", "kind": spec["names"]["kind"]}
            return {**kind, "metadata": {"name": "default"}, **({"spec": {}} if "spec" in fields else {})}
    return None


def groups_of(webhook: Document) -> set[str]:
    return {group for rule in webhook.get("rules") or () for group in rule["apiGroups"]}


async def unlike_kubectl(
    landscape: Landscape, kubectl: Kubectl, text: str, entries: Iterable[InventoryEntry]
) -> list[str]:
    """Return what kubectl would have otherwise if it had applied the same text in the product's name."""
    applied = await kubectl.result_of(text, FIELD_MANAGER, names.SKR_NAMESPACE)
    found = []
    for entry in entries:
        live = await landscape.live(entry)
        theirs = applied[entry.kind, entry.namespace, entry.name]
        assert live is not None
        found += [f"{entry}{each}" for each in differences(content_of(theirs), content_of(live))]
    return found


def content_of(live: Mapping[str, Any]) -> Document:
    """Return an object without who owns it, and without what only the product makes up for.

    - It leaves a CA that is none to who injects one.
    - A server copies the labels of a Job's template to a Job without labels: the product's has some.
    """
    content = {key: value for key, value in comparable(live).items() if key != "owners"}
    if live["kind"] == "Job":
        content["metadata"] = without_copies(content)
    cleaned: Document = without_placeholders(content)
    return cleaned


def without_copies(job: Document) -> Document:
    copied = (job["spec"]["template"].get("metadata") or {}).get("labels") or {}
    labels = {key: value for key, value in (job["metadata"].get("labels") or {}).items() if key not in copied}
    rest = {key: value for key, value in job["metadata"].items() if key != "labels"}
    return rest | ({"labels": labels} if labels else {})


def without_placeholders(value: Any) -> Any:
    if isinstance(value, list):
        return [without_placeholders(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: without_placeholders(below) for key, below in value.items()}
    bundle = kept.get("caBundle", "")
    if isinstance(bundle, str) and b"CERTIFICATE" not in base64.b64decode(bundle):
        kept.pop("caBundle", None)
    return kept
