"""The user sees the answer where they asked: status and Events of the Module CR, in their own cluster."""

from contextlib import aclosing
from typing import Any

from kube_runtime import Client
from kyma_demo.user import INFRASTRUCTURES
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.owned_fields import MODULE_CR_STATUS_MANAGER
from lifecycle_manager.contract.resources import MODULE_CONFIGS, SYNC_RESOURCES
from lifecycle_manager_api import names
from tests.kinds import EVENTS
from tests.waiting import eventually

KCP, SKR = names.KCP_NAMESPACE, names.SKR_NAMESPACE
CONFIG = "demo-cloud-resources"


async def infrastructure(walkthrough: Walkthrough) -> dict[str, Any]:
    return await walkthrough.environment.skr.get(INFRASTRUCTURES, "default", SKR)


def ready_of(module_cr: dict[str, Any]) -> dict[str, Any] | None:
    """Return the condition if it is about the newest version, as `kubectl wait` takes it."""
    status = module_cr.get("status") or {}
    found = [each for each in status.get("conditions", ()) if each["type"] == "Ready"]
    is_current = bool(found) and found[0]["observedGeneration"] == module_cr["metadata"]["generation"]
    return found[0] if is_current and status["observedGeneration"] == module_cr["metadata"]["generation"] else None


async def has_ready(walkthrough: Walkthrough, status: str) -> dict[str, Any]:
    """Wait until Ready is about the newest version, and has a status."""

    async def answered() -> dict[str, Any] | None:
        module_cr = await infrastructure(walkthrough)
        ready = ready_of(module_cr)
        return module_cr if ready is not None and ready["status"] == status else None

    return await eventually(answered)


async def peer_with(walkthrough: Walkthrough, network: str) -> None:
    patch = {"spec": {"vpcPeerings": [{"name": "billing", "remoteNetwork": network}]}}
    await walkthrough.environment.skr.merge_patch(INFRASTRUCTURES, "default", patch, SKR, field_manager="user")


async def generations(kcp: Client) -> tuple[int, int]:
    """Return how often the ModuleConfig and the SyncResource were written, leaving out their status."""
    config, sync = await kcp.get(MODULE_CONFIGS, CONFIG, KCP), await kcp.get(SYNC_RESOURCES, CONFIG, KCP)
    return config.metadata.generation, sync.metadata.generation


async def test_mistake_and_its_correction_are_reported_to_the_user(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("310Gi")
    await has_ready(walkthrough, "True")
    await peer_with(walkthrough, "0.0.0.0/0")
    mistaken = await has_ready(walkthrough, "False")
    ready = ready_of(mistaken)
    assert ready is not None
    assert (mistaken["status"]["state"], ready["reason"]) == ("Error", "NetworkTooWide")
    assert "the whole internet" in ready["message"]
    await peer_with(walkthrough, "10.100.0.0/16")
    assert (await has_ready(walkthrough, "True"))["status"]["state"] == "Ready"

    async def is_reported() -> bool:
        listed = (await walkthrough.environment.skr.list(EVENTS, SKR)).items
        uid = mistaken["metadata"]["uid"]
        found = [(each["reason"], each["note"]) for each in listed if each["regarding"].get("uid") == uid]
        is_applied = any(reason == "Applied" for reason, _ in found)
        return is_applied and any(reason == "Refused" and "the whole internet" in note for reason, note in found)

    await eventually(is_reported)


async def test_each_change_is_one_write_everywhere(walkthrough: Walkthrough) -> None:
    """The status that is written leads to no other text of the Module CR, no rendering and no further status."""
    kcp, skr = walkthrough.environment.kcp, walkthrough.environment.skr
    await walkthrough.change_volume("320Gi")
    await has_ready(walkthrough, "True")
    before = await generations(kcp)
    listed = await skr.list(INFRASTRUCTURES, SKR)
    writes: list[dict[str, Any]] = []
    changes = 5
    for number in range(changes):
        await walkthrough.change_volume(f"{321 + number}Gi")
        await has_ready(walkthrough, "True")
    await walkthrough.environment.skr.merge_patch(
        INFRASTRUCTURES, "default", {"metadata": {"annotations": {"last": "one"}}}, SKR, field_manager="user"
    )
    async with aclosing(skr.watch(INFRASTRUCTURES, SKR, resource_version=listed.resource_version)) as changes_seen:
        async for event in changes_seen:
            if event.object is not None and event.object["metadata"]["name"] == "default":
                writes.append(event.object)
                if event.object["metadata"].get("annotations", {}).get("last"):
                    break
    after = await generations(kcp)
    statuses = [
        each
        for each, previous in zip(writes[1:], writes, strict=False)
        if each["status"] != previous["status"] and each["metadata"]["generation"] == previous["metadata"]["generation"]
    ]
    assert [late - early for late, early in zip(after, before, strict=True)] == [changes, changes]
    assert changes <= len(statuses) <= 2 * changes
    assert len(writes) == changes + len(statuses) + 1, "each write is the user's or a status"


async def test_text_for_the_module_manager_has_nothing_that_we_wrote(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("330Gi")
    await has_ready(walkthrough, "True")
    await walkthrough.programs.restart("lifecycle-manager")
    await walkthrough.change_volume("331Gi")
    module_cr = await has_ready(walkthrough, "True")
    managers = {each["manager"] for each in module_cr["metadata"]["managedFields"] if each.get("subresource")}
    assert managers == {MODULE_CR_STATUS_MANAGER}
    config = await walkthrough.environment.kcp.get(MODULE_CONFIGS, CONFIG, KCP)
    assert "331Gi" in config.spec.resource
    assert "status:" not in config.spec.resource


async def test_condition_of_an_operator_stays(walkthrough: Walkthrough) -> None:
    await walkthrough.change_volume("340Gi")
    await has_ready(walkthrough, "True")
    attached = {"type": "Attached", "status": "True", "reason": "Attached", "message": ""}
    status = {"conditions": [attached | {"lastTransitionTime": "2026-11-01T12:00:00Z"}]}
    skr = walkthrough.environment.skr
    await skr.apply(INFRASTRUCTURES, "default", {"status": status}, SKR, field_manager="operator", subresource="status")
    await walkthrough.change_volume("341Gi")
    module_cr = await has_ready(walkthrough, "True")
    assert {each["type"] for each in module_cr["status"]["conditions"]} == {"Ready", "Attached"}
    await skr.apply(INFRASTRUCTURES, "default", {}, SKR, field_manager="operator", subresource="status")
