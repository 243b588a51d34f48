"""The way of a user's change to the control plane: tried end to end, told where it is broken, and kept in order."""

from typing import Any

from kube_runtime import NotFound, Resource
from lifecycle_manager.resources import KYMAS
from lifecycle_manager.skr_webhook.canary import ANNOTATION, SERVICE_ACCOUNTS
from lifecycle_manager_api import Kyma, find, names
from local.demo import processes
from local.demo.stage import Stage
from local.demo.story import Story
from local.egress import Route, add_route
from local.ports import free_port
from tests.waiting import eventually

EVENTS: Resource[dict[str, Any]] = Resource.dynamic("events.k8s.io", "v1", "Event", "events", namespaced=True)
WEBHOOKS: Resource[dict[str, Any]] = Resource.dynamic(
    "admissionregistration.k8s.io",
    "v1",
    "ValidatingWebhookConfiguration",
    "validatingwebhookconfigurations",
    namespaced=False,
)


async def test_broken_way_is_told_and_changes_are_found_until_it_is_mended(story: Story) -> None:
    """The Watcher runs, and is heard; but its Service leads the API server to where nobody listens."""
    stage, cast = story.stage, story.cast
    await story.change_volume("610Gi")
    elsewhere = free_port()
    await cast.stop("skr-watcher")
    await cast._start(processes.skr_watcher(stage.directory / "skr-webhook-tls", elsewhere, cast.event_port))

    message = await eventually(lambda: webhook_says(stage, "False", "EventPathBroken"), within=30)
    assert "changes are found at intervals" in message
    await eventually(lambda: told(stage, "EventPathBroken"))
    await story.patch_volume("611Gi")  # the user's write meets no error
    await story.sees_volume("611Gi", within=20)

    assert stage.skr_routes is not None
    add_route(stage.skr_routes, Route(names.SKR_NAMESPACE, "skr-webhook", 443, "127.0.0.1", elsewhere))
    await eventually(lambda: webhook_says(stage, "True", "WatcherReady"), within=30)
    await story.change_volume("612Gi")


async def test_canary_leaves_one_annotation_on_an_object_of_our_own(stage: Stage) -> None:
    account = await stage.skr.get(SERVICE_ACCOUNTS, "skr-webhook", names.SKR_NAMESPACE)
    assert set(account["metadata"].get("annotations", {})) <= {ANNOTATION}


async def test_deleted_webhook_is_put_back(stage: Stage) -> None:
    before = await stage.skr.get(WEBHOOKS, "skr-webhook")
    await stage.skr.delete(WEBHOOKS, "skr-webhook")

    async def back() -> bool:
        try:
            after = await stage.skr.get(WEBHOOKS, "skr-webhook")
        except NotFound:
            return False
        return bool(after["webhooks"] == before["webhooks"])

    await eventually(back, within=40)


async def webhook_says(stage: Stage, status: str, reason: str) -> str | None:
    """Return the message of the SKRWebhook condition if it has a status and reason."""
    kyma: Kyma = await stage.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
    condition = find(kyma.status.conditions, "SKRWebhook")
    return condition.message if condition and (condition.status, condition.reason) == (status, reason) else None


async def told(stage: Stage, reason: str) -> bool:
    """Tell whether an Event about the Kyma has a reason."""
    events = await stage.kcp.list(EVENTS, names.KCP_NAMESPACE, field_selector="regarding.kind=Kyma")
    return any(event["reason"] == reason for event in events.items)
