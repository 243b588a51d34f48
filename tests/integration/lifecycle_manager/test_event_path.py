"""The way of a user's change to the control plane: tried end to end, told where it is broken, and kept in order."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from kube_runtime import NotFound
from kyma_certs import KeyPair, LeafRequest, create_ca, describe, issue
from kyma_demo import processes
from kyma_demo.cast import TLS_SECRET
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from lifecycle_manager.resources import SECRETS
from lifecycle_manager.skr_webhook.canary import ANNOTATION, SERVICE_ACCOUNTS
from lifecycle_manager.skr_webhook.tls_secret import key_pair_in
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.programs import Manager, altered
from tests.integration.lifecycle_manager.watching import (
    SERVICES,
    WEBHOOKS,
    changes_are_told,
    is_well,
    kubelet,
    moment,
    says_everywhere,
    webhook_says,
)
from tests.waiting import eventually

WATCHER = "skr-watcher"
NAMESPACE = names.SKR_NAMESPACE


async def test_broken_way_is_told_and_changes_are_found_until_it_is_mended(story: Story, manager: Manager) -> None:
    """The Watcher runs, and is heard; but its Service leads the API server to where nobody listens."""
    stage, cast, began = story.stage, story.cast, moment()
    await story.change_volume("610Gi")
    elsewhere = free_port()
    await cast.stop(WATCHER)
    await cast._start(processes.skr_watcher(stage.directory / TLS_SECRET, elsewhere, cast.event_port))

    await eventually(lambda: says_everywhere(stage, manager, "EventPathBroken", began), within=120)
    message = await webhook_says(stage, "False", "EventPathBroken")
    assert message is not None
    assert "changes are found at intervals" in message
    await story.patch_volume("611Gi")  # the user's write meets no error
    await story.sees_volume("611Gi")

    assert stage.skr_routes is not None
    add_route(stage.skr_routes, Route(NAMESPACE, "skr-webhook", 443, "127.0.0.1", elsewhere))
    await eventually(lambda: is_well(stage))
    await changes_are_told(story, 612)


async def test_watcher_with_a_certificate_that_does_not_bear_its_service_is_told(
    story: Story, manager: Manager
) -> None:
    """It is who it says, and heard; but the API server does not believe that it asks the Service."""
    stage, began = story.stage, moment()
    ca = key_pair_in(await stage.kcp.get(SECRETS, "klm-watcher", names.KCP_NAMESPACE))
    assert ca is not None
    shown = describe((stage.directory / TLS_SECRET / "tls.crt").read_bytes())
    request = LeafRequest(common_name=shown.common_name, dns_names=("elsewhere.example",))
    pair = issue(ca, request, now=moment())
    async with watcher_with(story, pair, ca.certificate_pem):
        await eventually(lambda: says_everywhere(stage, manager, "EventPathBroken", began), within=120)
        await story.patch_volume("621Gi")
        await story.sees_volume("621Gi")
    await eventually(lambda: is_well(stage))
    await changes_are_told(story, 622)


async def test_wrong_certificate_in_the_cluster_is_put_right(story: Story, manager: Manager) -> None:
    """Somebody puts a certificate of their own into the Watcher's Secret: nobody believes the Watcher any more."""
    stage, cast = story.stage, story.cast
    await story.change_volume("630Gi")
    theirs = create_ca("theirs", lifetime=timedelta(days=5), now=moment())
    pair = issue(theirs, LeafRequest(common_name="anybody", dns_names=("skr-webhook.kyma-system.svc",)), now=moment())
    data = {"tls.crt": encoded(pair.certificate_pem), "tls.key": encoded(pair.key_pem)}
    before = await stage.skr.get(SECRETS, TLS_SECRET, NAMESPACE)
    async with kubelet(stage):
        await stage.skr.merge_patch(SECRETS, TLS_SECRET, {"data": data}, NAMESPACE)
        await cast.stop(WATCHER)
        await cast.restart(WATCHER)

        async def right() -> bool:
            return (await stage.skr.get(SECRETS, TLS_SECRET, NAMESPACE)).data == before.data

        await eventually(right)
        await eventually(lambda: is_well(stage))
        await changes_are_told(story, 631)


async def test_wrong_trust_in_the_webhook_is_put_right(story: Story, manager: Manager) -> None:
    """With another caBundle the API server distrusts the Watcher, and lets users' changes pass without asking it."""
    stage = story.stage
    before = await stage.skr.get(WEBHOOKS, "skr-webhook")
    theirs = create_ca("theirs", lifetime=timedelta(days=5), now=moment())
    webhooks = [
        each | {"clientConfig": each["clientConfig"] | {"caBundle": encoded(theirs.certificate_pem)}}
        for each in before["webhooks"]
    ]
    await stage.skr.merge_patch(WEBHOOKS, "skr-webhook", {"webhooks": webhooks})
    await story.patch_volume("640Gi")  # the user's write meets no error

    async def right() -> bool:
        return bool((await stage.skr.get(WEBHOOKS, "skr-webhook"))["webhooks"] == before["webhooks"])

    await eventually(right)
    await eventually(lambda: is_well(stage))
    await story.sees_volume("640Gi")
    await changes_are_told(story, 641)


async def test_edited_service_is_put_right(story: Story, manager: Manager) -> None:
    """Another port and another selector: the API server finds nobody any more behind the port that it asks for."""
    stage, cast = story.stage, story.cast
    before = (await stage.skr.get(SERVICES, "skr-webhook", NAMESPACE))["spec"]
    edit = {"selector": {"app": "nobody"}, "ports": [before["ports"][0] | {"port": 444, "targetPort": 9999}]}
    await stage.skr.merge_patch(SERVICES, "skr-webhook", {"spec": edit}, NAMESPACE)
    await cast.stop(WATCHER)  # what is open stays open, whatever becomes of a Service
    await cast.restart(WATCHER)

    async def right() -> bool:
        now = (await stage.skr.get(SERVICES, "skr-webhook", NAMESPACE))["spec"]
        return bool((now["ports"], now["selector"]) == (before["ports"], before["selector"]))

    await eventually(right)
    await eventually(lambda: is_well(stage))
    await changes_are_told(story, 651)


async def test_canary_leaves_one_annotation_on_an_object_of_our_own(stage: Stage) -> None:
    account = await stage.skr.get(SERVICE_ACCOUNTS, "skr-webhook", NAMESPACE)
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

    await eventually(back)


@asynccontextmanager
async def watcher_with(story: Story, pair: KeyPair, trust: bytes) -> AsyncGenerator[None, None]:
    """Have the Watcher run with other files for a while, on the port where it is looked for."""
    cast = story.cast
    folder = files_of(story.stage.directory / "other-files", pair, trust)
    files = {"TLS_CERT": str(folder / "tls.crt"), "TLS_KEY": str(folder / "tls.key"), "CA_CERT": str(folder / "ca.crt")}
    original = cast._programs[WATCHER]
    await cast.stop(WATCHER)
    await cast._start(altered(original, **files))
    try:
        yield
    finally:
        await cast.stop(WATCHER)
        await cast._start(original)


def files_of(folder: Path, pair: KeyPair, trust: bytes) -> Path:
    """Write what a Watcher is given into a folder."""
    folder.mkdir()
    for name, content in (("tls.crt", pair.certificate_pem), ("tls.key", pair.key_pem), ("ca.crt", trust)):
        (folder / name).write_bytes(content)
    return folder


def encoded(content: bytes) -> str:
    """Return what stands for some bytes in JSON."""
    return base64.b64encode(content).decode()
