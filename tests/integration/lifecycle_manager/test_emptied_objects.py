"""Lists that somebody empties in the cluster, in objects whose changes the API server reports to no webhook."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest
import pytest_asyncio

from kyma_demo.walkthrough import Walkthrough
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, release, template
from tests.integration.lifecycle_manager.test_manifests_of_modules import CLOUD_RESOURCES, gone, template_with
from tests.integration.lifecycle_manager.test_sync_resources import rights
from tests.kinds import MUTATING_WEBHOOKS, WEBHOOKS
from tests.registries import BlobServer
from tests.waiting import eventually

Document = dict[str, Any]
GROUP = "admissionregistration.k8s.io"
NAME = "guards.example.com"
HOOKS = {
    "ValidatingWebhookConfiguration": WEBHOOKS,
    "MutatingWebhookConfiguration": MUTATING_WEBHOOKS,
}


def configuration(kind: str) -> Document:
    rules = [{"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]}]
    shared = {
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "failurePolicy": "Ignore",
        "clientConfig": {"url": "https://127.0.0.1:1/"},
        "rules": rules,
    }
    hooks = [{"name": f"{each}.example.com", **shared} for each in ("first", "second")]
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": NAME}, "webhooks": hooks}


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def guards(walkthrough: Walkthrough, layers: BlobServer) -> AsyncIterator[Walkthrough]:
    """A module with webhook configurations, whose objects are read every few seconds."""
    environment = walkthrough.environment
    offered = template_with(layers, template("guards", "1.0.0"), map(configuration, HOOKS))
    resources = [each.plural for each in HOOKS.values()]
    async with (
        rights(environment, "webhooks", [GROUP], resources),
        in_catalog(environment.kcp, offered, release("guards", regular="1.0.0")),
    ):
        await walkthrough.set_modules([CLOUD_RESOURCES, {"name": "guards", "managed": True}])
        for kind in HOOKS:
            await eventually(names_of(walkthrough, kind), what=f"the {kind} is installed")
        yield walkthrough
        await walkthrough.set_modules([CLOUD_RESOURCES])
        await eventually(gone(environment, "guards"))


def names_of(guards: Walkthrough, kind: str) -> Callable[[], Awaitable[bool]]:
    """Return what tells whether all webhooks of the configuration are there, with their rules."""

    async def are_there() -> bool:
        found = (await guards.environment.skr.list(HOOKS[kind])).items
        hooks = [hook for each in found if each["metadata"]["name"] == NAME for hook in each.get("webhooks", [])]
        return [bool(each.get("rules")) for each in hooks] == [True, True]

    return are_there


@pytest.mark.parametrize("kind", HOOKS)
@pytest.mark.parametrize("change", ["no-webhooks", "one-webhook", "no-rules"])
async def test_webhooks_that_somebody_empties_are_back_at_the_interval(
    guards: Walkthrough, kind: str, change: str
) -> None:
    hooks = configuration(kind)["webhooks"]
    emptied = {"no-webhooks": [], "one-webhook": hooks[:1], "no-rules": [{**each, "rules": []} for each in hooks]}
    patch = {"webhooks": emptied[change]}
    await guards.environment.skr.merge_patch(HOOKS[kind], NAME, patch, field_manager="kubectl-edit")
    await eventually(names_of(guards, kind), what="the webhooks are repaired")
