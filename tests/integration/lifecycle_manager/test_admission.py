"""Admission on a real API server: what module teams write is accepted, and the webhooks stay registered."""

from typing import Any

from kube_runtime import NotFound, NotServed
from kyma_demo.environment import Environment
from kyma_fleet.checking import findings
from lifecycle_manager.admission import ADMISSION_WEBHOOKS
from lifecycle_manager.contract.resources import MODULE_TEMPLATES
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, put_in_catalog, release, template
from tests.waiting import eventually, is_gone

NAME = "lifecycle-manager"
MANAGER = {"group": "apps", "version": "v1", "kind": "Deployment", "name": "warden-operator"}


async def test_definition_of_a_module_without_a_namespace_of_its_manager_is_accepted(environment: Environment) -> None:
    """As those of keda, serverless and warden are: as one that users choose, and as a mandatory one."""
    await eventually(lambda: _is_registered(environment))
    for entry in (release("warden", regular="1.0.0"), release("warden", mandatory="1.0.0")):
        definition = template("warden", "1.0.0", installs=False)
        async with in_catalog(environment.kcp, definition, entry):
            definition["spec"]["manager"] = MANAGER
            await put_in_catalog(environment.kcp, definition)
            found = await environment.kcp.get(MODULE_TEMPLATES, "warden-1.0.0", names.KCP_NAMESPACE)
            assert found.spec.manager is not None
            assert (found.spec.manager.name, found.spec.manager.namespace) == ("warden-operator", "")
        async with in_catalog(environment.kcp, definition, entry):
            pass  # created with it, too
    await eventually(lambda: is_gone(environment.skr.get(MODULE_TEMPLATES, "warden-1.0.0", names.SKR_NAMESPACE)))


async def test_webhooks_that_somebody_changes_are_back_after_half_a_minute(environment: Environment) -> None:
    """With the rights of Lifecycle Manager. Those to create it again are used in the tests of the charts."""
    await eventually(lambda: _is_registered(environment))
    found = await environment.kcp.get(ADMISSION_WEBHOOKS, NAME)
    changed: dict[str, Any] = {"namespaceSelector": {"matchLabels": {"nothing": "matches"}}, "timeoutSeconds": 1}
    webhooks = [each | changed for each in found["webhooks"]]
    edited = await environment.kcp.merge_patch(
        ADMISSION_WEBHOOKS, NAME, {"webhooks": webhooks}, field_manager="somebody"
    )
    assert not _is_in_order(edited)
    await eventually(lambda: _is_registered(environment), within=90, every=1.0)


async def _is_registered(environment: Environment) -> bool:
    try:
        found = await environment.kcp.get(ADMISSION_WEBHOOKS, NAME)
    except (NotFound, NotServed):
        return False
    return _is_in_order(found)


def _is_in_order(found: dict[str, Any]) -> bool:
    return findings.of_webhooks(found, is_enabled=True).mark == "ok"
