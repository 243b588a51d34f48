"""A ModulePolicy that would give a module with ModuleConfigs another namespace is refused."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import msgspec
import pytest

from lifecycle_manager import endpoints
from lifecycle_manager.admission import create_app, webhook_configuration
from lifecycle_manager.contract.resources import MODULE_CONFIGS, NAMESPACES
from tests import builders
from tests.world import KCP, World, open_world

OWN, MODULE = "module-cloud-resources", "cloud-resources"


@pytest.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        for name in (OWN, "foreign"):
            await opened.kcp.create(NAMESPACES, {"metadata": {"name": name}}, field_manager="operator")
        yield opened


async def answer(world: World, operation: str, namespace: str = OWN) -> str:
    """Return why a ModulePolicy with this namespace is refused; nothing where it is allowed."""
    policy: dict[str, Any] = {"metadata": {"name": MODULE, "namespace": KCP}}
    policy["spec"] = {"controlPlaneNamespace": namespace}
    part = "oldObject" if operation == "DELETE" else "object"
    body = msgspec.json.encode({"request": {"uid": "u1", "operation": operation, part: policy}})
    validators = endpoints.validators(world.manager, world.offers)
    await world.sync_caches()
    transport = httpx.ASGITransport(create_app(validators))
    async with httpx.AsyncClient(transport=transport, base_url="https://kcp") as client:
        response = (await client.post("/validate/modulepolicies", content=body)).json()["response"]
    return "" if response["allowed"] else response["status"]["message"]


async def have_config(world: World, namespace: str, module: str = MODULE) -> None:
    item = builders.as_written(builders.module_config(f"demo-{module}", namespace=namespace, module=module))
    await world.kcp.create(MODULE_CONFIGS, item, namespace, field_manager="lifecycle-manager")


@pytest.mark.parametrize(
    ("operation", "present", "later"), [("CREATE", KCP, OWN), ("DELETE", OWN, KCP)], ids=["creation", "deletion"]
)
async def test_it_is_refused_while_the_module_has_module_configs(
    world: World, operation: str, present: str, later: str
) -> None:
    await have_config(world, present)
    why = await answer(world, operation)
    assert all(each in why for each in (MODULE, f"1 ModuleConfig in {present}", later, "spec.enableModuleConfig"))


@pytest.mark.parametrize("operation", ["CREATE", "DELETE"])
async def test_it_is_allowed_where_the_namespace_stays_and_where_nothing_is_left(world: World, operation: str) -> None:
    await have_config(world, KCP, module="telemetry")
    assert await answer(world, operation) == ""
    await have_config(world, OWN if operation == "CREATE" else KCP)
    assert await answer(world, operation) == ""
    await have_config(world, "foreign")  # by a stranger, who may not keep a policy from being written or deleted
    assert await answer(world, operation) == ""
    assert await answer(world, operation, namespace=KCP) == ""


def test_only_policies_with_another_namespace_than_the_default_wait_for_an_answer() -> None:
    webhooks = {each["name"]: each for each in webhook_configuration("service", KCP, b"")["webhooks"]}
    webhook = webhooks["modulepolicies.operator.kyma-project.io"]
    (rule,), (condition,) = webhook["rules"], webhook["matchConditions"]
    assert rule["operations"] == ["CREATE", "DELETE"]
    assert condition["expression"].endswith(".spec.controlPlaneNamespace != 'kcp-system'")
