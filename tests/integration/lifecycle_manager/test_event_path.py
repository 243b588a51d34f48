"""The event path: tested end to end, reported where it is broken, and repaired."""

import base64
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path

from kube_runtime import NotFound, NotServed
from kyma_certs import KeyPair, LeafRequest, create_ca, describe, issue
from kyma_demo import processes
from kyma_demo.environment import Environment
from kyma_demo.programs import TLS_SECRET
from kyma_demo.walkthrough import Walkthrough
from kyma_local.egress import Route, add_route
from kyma_local.ports import free_port
from lifecycle_manager.contract.resources import SECRETS, SERVICE_ACCOUNTS
from lifecycle_manager.skr_webhook.canary import ANNOTATION
from lifecycle_manager.watcher_certificates.tls_secret import key_pair_in
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.event_path import (
    changes_are_reported,
    is_reported_everywhere,
    is_watcher_ready,
    kubelet,
    moment,
    webhook_message,
)
from tests.integration.lifecycle_manager.programs import Manager, with_options
from tests.kinds import SERVICES, WEBHOOKS
from tests.waiting import eventually

WATCHER = "skr-watcher"
NAMESPACE = names.SKR_NAMESPACE


async def test_broken_event_path_is_reported_and_changes_are_found_by_polling(
    walkthrough: Walkthrough, manager: Manager
) -> None:
    """The Watcher sends heartbeats, but the endpoint of its Service does not listen."""
    environment, programs, began = walkthrough.environment, walkthrough.programs, moment()
    await walkthrough.change_volume("610Gi")
    elsewhere = free_port()
    await programs.stop(WATCHER)
    await programs.start(processes.skr_watcher(environment.directory / TLS_SECRET, elsewhere, programs.event_port))
    try:
        await eventually(lambda: is_reported_everywhere(environment, manager, "EventPathBroken", began), within=120)
        message = await webhook_message(environment, "False", "EventPathBroken")
        assert message is not None
        assert "changes are found at intervals" in message
        await walkthrough.patch_volume("611Gi")  # the user's write meets no error
        await walkthrough.wait_for_volume("611Gi")
    finally:
        assert environment.skr_routes is not None
        add_route(environment.skr_routes, Route(NAMESPACE, "skr-webhook", 443, "127.0.0.1", elsewhere))
    await eventually(lambda: is_watcher_ready(environment))
    await changes_are_reported(walkthrough, 612)


async def test_watcher_certificate_without_the_name_of_its_service_is_reported(
    walkthrough: Walkthrough, manager: Manager
) -> None:
    """The Watcher sends heartbeats, but the API server does not accept its certificate."""
    environment, began = walkthrough.environment, moment()
    ca = key_pair_in(await environment.kcp.get(SECRETS, "klm-watcher", names.KCP_NAMESPACE))
    assert ca is not None
    shown = describe((environment.directory / TLS_SECRET / "tls.crt").read_bytes())
    request = LeafRequest(common_name=shown.common_name, dns_names=("elsewhere.example",))
    pair = issue(ca, request, now=moment())
    async with watcher_with(walkthrough, pair, ca.certificate_pem):
        await eventually(lambda: is_reported_everywhere(environment, manager, "EventPathBroken", began), within=120)
        await walkthrough.patch_volume("621Gi")
        await walkthrough.wait_for_volume("621Gi")
    await eventually(lambda: is_watcher_ready(environment))
    await changes_are_reported(walkthrough, 622)


async def test_wrong_certificate_in_the_cluster_is_replaced(walkthrough: Walkthrough, manager: Manager) -> None:
    """With a certificate of another CA in its Secret, nobody trusts the Watcher."""
    environment, programs = walkthrough.environment, walkthrough.programs
    await walkthrough.change_volume("630Gi")
    theirs = create_ca("theirs", lifetime=timedelta(days=5), now=moment())
    pair = issue(theirs, LeafRequest(common_name="anybody", dns_names=("skr-webhook.kyma-system.svc",)), now=moment())
    data = {"tls.crt": encoded(pair.certificate_pem), "tls.key": encoded(pair.key_pem)}
    before = await environment.skr.get(SECRETS, TLS_SECRET, NAMESPACE)
    async with kubelet(environment):
        await environment.skr.merge_patch(SECRETS, TLS_SECRET, {"data": data}, NAMESPACE)
        await programs.stop(WATCHER)
        await programs.restart(WATCHER)

        async def corrected() -> bool:
            return (await environment.skr.get(SECRETS, TLS_SECRET, NAMESPACE)).data == before.data

        await eventually(corrected)
        await eventually(lambda: is_watcher_ready(environment))
        await changes_are_reported(walkthrough, 631)


async def test_wrong_ca_bundle_in_the_webhook_is_corrected(walkthrough: Walkthrough, manager: Manager) -> None:
    """With another caBundle the API server does not trust the Watcher, and allows changes without calling it."""
    environment = walkthrough.environment
    before = await environment.skr.get(WEBHOOKS, "skr-webhook")
    theirs = create_ca("theirs", lifetime=timedelta(days=5), now=moment())
    webhooks = [
        each | {"clientConfig": each["clientConfig"] | {"caBundle": encoded(theirs.certificate_pem)}}
        for each in before["webhooks"]
    ]
    await environment.skr.merge_patch(WEBHOOKS, "skr-webhook", {"webhooks": webhooks})
    await walkthrough.patch_volume("640Gi")  # the user's write meets no error

    async def corrected() -> bool:
        return bool((await environment.skr.get(WEBHOOKS, "skr-webhook"))["webhooks"] == before["webhooks"])

    await eventually(corrected)
    await eventually(lambda: is_watcher_ready(environment))
    await walkthrough.wait_for_volume("640Gi")
    await changes_are_reported(walkthrough, 641)


async def test_edited_service_is_corrected(walkthrough: Walkthrough, manager: Manager) -> None:
    """With another port and another selector the Service has no endpoint for the webhook."""
    environment, programs = walkthrough.environment, walkthrough.programs
    before = (await environment.skr.get(SERVICES, "skr-webhook", NAMESPACE))["spec"]
    edit = {"selector": {"app": "nobody"}, "ports": [before["ports"][0] | {"port": 444, "targetPort": 9999}]}
    await environment.skr.merge_patch(SERVICES, "skr-webhook", {"spec": edit}, NAMESPACE)
    await programs.stop(WATCHER)  # open connections do not depend on the Service
    await programs.restart(WATCHER)

    async def corrected() -> bool:
        now = (await environment.skr.get(SERVICES, "skr-webhook", NAMESPACE))["spec"]
        return bool((now["ports"], now["selector"]) == (before["ports"], before["selector"]))

    await eventually(corrected)
    await eventually(lambda: is_watcher_ready(environment))
    await changes_are_reported(walkthrough, 651)


async def test_canary_sets_only_one_annotation_on_its_own_object(environment: Environment) -> None:
    account = await environment.skr.get(SERVICE_ACCOUNTS, "skr-webhook", NAMESPACE)
    assert set(account["metadata"].get("annotations", {})) <= {ANNOTATION}


async def test_deleted_webhook_is_created_again(environment: Environment) -> None:
    before = await environment.skr.get(WEBHOOKS, "skr-webhook")
    await environment.skr.delete(WEBHOOKS, "skr-webhook")

    async def created() -> bool:
        try:
            after = await environment.skr.get(WEBHOOKS, "skr-webhook")
        except (NotFound, NotServed):
            return False
        return bool(after["webhooks"] == before["webhooks"])

    await eventually(created)


@asynccontextmanager
async def watcher_with(walkthrough: Walkthrough, pair: KeyPair, trust: bytes) -> AsyncGenerator[None, None]:
    """Run the Watcher with other certificate files until the block ends."""
    programs = walkthrough.programs
    folder = files_of(walkthrough.environment.directory / "other-files", pair, trust)
    files = {"TLS_CERT": str(folder / "tls.crt"), "TLS_KEY": str(folder / "tls.key"), "CA_CERT": str(folder / "ca.crt")}
    original = programs.started[WATCHER]
    await programs.stop(WATCHER)
    await programs.start(with_options(original, **files, DRAIN_SECONDS="1"))  # what it has pending nobody accepts
    try:
        yield
    finally:
        await programs.stop(WATCHER)
        await programs.start(original)


def files_of(folder: Path, pair: KeyPair, trust: bytes) -> Path:
    """Write the files of a Watcher's Secret to a folder."""
    folder.mkdir()
    for name, content in (("tls.crt", pair.certificate_pem), ("tls.key", pair.key_pem), ("ca.crt", trust)):
        (folder / name).write_bytes(content)
    return folder


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()
