"""A Watcher CR in KCP adds rules to the webhook in each SKR, and its status shows the progress."""

from functools import partial
from typing import Any

import msgspec

from kyma_demo.environment import Environment
from kyma_demo.names import USER
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import WATCHERS
from lifecycle_manager_api import Watcher, find, names
from tests.integration.lifecycle_manager.event_path import has_received, moment
from tests.kinds import CONFIG_MAPS, NETWORK_POLICIES, WEBHOOKS
from tests.waiting import eventually

NAME = "kcp-system.colours.operator.kyma-project.io"


def watcher(colour: str) -> dict[str, Any]:
    return {
        "apiVersion": WATCHERS.api_version,
        "kind": "Watcher",
        "metadata": {"name": "colours", "namespace": names.KCP_NAMESPACE},
        "spec": {
            "field": "spec",
            "manager": "painter",
            "gateway": {"selector": {"matchLabels": {"app": "gateway"}}},
            "labelsToWatch": {"colour": colour},
            "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
            "serviceInfo": {"name": "painter", "namespace": names.KCP_NAMESPACE, "port": 8082},
        },
    }


async def test_watcher_cr_is_applied_to_the_cluster_and_reports_it(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    for generation, colour in enumerate(("red", "blue"), start=1):
        await environment.kcp.apply(WATCHERS, "colours", watcher(colour), names.KCP_NAMESPACE, field_manager="test")
        await eventually(partial(_watches, environment, colour))
        await eventually(partial(_in_force, environment, generation))

    config_map = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "painted", "namespace": "default", "labels": {"colour": "blue"}},
    }
    # As at the deletion of a namespace: the admission request of the API server then names no object.
    collection = "/api/v1/namespaces/default/configmaps?labelSelector=colour%3Dblue"
    began = moment()

    async def both_are_reported() -> bool:
        """Create and delete; the API server takes some time to call a new webhook."""
        await environment.skr.apply(CONFIG_MAPS, "painted", config_map, "default", field_manager=USER)
        await environment.skr.raw("DELETE", collection, body=b'{"apiVersion": "v1", "kind": "DeleteOptions"}')
        return all(has_received(environment, "ConfigMap default/painted", began, each) for each in ("CREATE", "DELETE"))

    await eventually(both_are_reported, every=0.5)  # by the path of another manager

    await environment.kcp.delete(WATCHERS, "colours", names.KCP_NAMESPACE)
    await eventually(lambda: _is_gone(environment))


async def test_invalid_watcher_cr_does_not_block_others(walkthrough: Walkthrough) -> None:
    environment = walkthrough.environment
    flawed = watcher("red")
    flawed["metadata"]["name"] = "flawed"
    flawed["spec"]["manager"] = "Of Walls/And Doors"
    await environment.kcp.apply(WATCHERS, "flawed", flawed, names.KCP_NAMESPACE, field_manager="test")
    await environment.kcp.apply(WATCHERS, "colours", watcher("green"), names.KCP_NAMESPACE, field_manager="test")
    await eventually(partial(_watches, environment, "green"))

    async def is_reported() -> bool:
        resource: Watcher = await environment.kcp.get(WATCHERS, "flawed", names.KCP_NAMESPACE)
        return resource.status.state == "Error"

    await eventually(is_reported)
    for name in ("flawed", "colours"):
        await environment.kcp.delete(WATCHERS, name, names.KCP_NAMESPACE)
    await eventually(lambda: _is_gone(environment))


async def test_foreign_edit_of_the_network_policy_is_reverted(environment: Environment) -> None:
    policy = await environment.skr.get(NETWORK_POLICIES, "skr-webhook", names.SKR_NAMESPACE)
    await environment.skr.merge_patch(
        NETWORK_POLICIES, "skr-webhook", {"spec": {"egress": []}}, names.SKR_NAMESPACE, field_manager=USER
    )

    async def reverted() -> bool:
        now = await environment.skr.get(NETWORK_POLICIES, "skr-webhook", names.SKR_NAMESPACE)
        return bool(now["spec"] == policy["spec"])

    await eventually(reverted)


async def _watches(environment: Environment, colour: str) -> bool:
    webhooks = (await environment.skr.get(WEBHOOKS, "skr-webhook"))["webhooks"]
    selectors = [each["objectSelector"].get("matchLabels") for each in webhooks if each["name"] == NAME]
    return selectors == [{"colour": colour}]


async def _in_force(environment: Environment, generation: int) -> bool:
    resource: Watcher = await environment.kcp.get(WATCHERS, "colours", names.KCP_NAMESPACE)
    ready = find(resource.status.conditions, "Ready")
    status = (resource.status.state, resource.status.observed_generation, ready and ready.status)
    return status == ("Ready", generation, "True")


async def _is_gone(environment: Environment) -> bool:
    return NAME not in msgspec.json.encode(await environment.skr.get(WEBHOOKS, "skr-webhook")).decode()
