"""An operator replaces the CA, or revokes a cluster's certificate, while its user goes on."""

import asyncio
import base64
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from itertools import count
from typing import Any

import pytest

from kube_runtime import Change, Informer, JsonObject
from kyma_certs import describe
from kyma_demo.cast import TLS_SECRET
from kyma_demo.stage import Stage
from kyma_demo.story import Story
from lifecycle_manager.resources import KYMAS, SECRETS
from lifecycle_manager.skr_webhook import ROTATE
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.watching import (
    WEBHOOKS,
    changes_are_told,
    distrusted,
    kubelet,
    lines_of,
    went_wrong,
)
from tests.waiting import eventually

CA_SECRET = "klm-watcher"


@pytest.fixture
def capacities() -> Iterator[str]:
    """Capacities that no other test uses."""
    return (f"{number}Gi" for number in count(2000))


def trusted_in(webhook: dict[str, Any]) -> set[int]:
    """Return how many CAs the API server trusts, for each webhook."""
    bundles = [base64.b64decode(each["clientConfig"]["caBundle"]) for each in webhook["webhooks"]]
    return {bundle.count(b"BEGIN CERTIFICATE") for bundle in bundles}


class WatcherLog:
    """What the Watcher has logged since this was made."""

    def __init__(self, stage: Stage) -> None:
        self._path = stage.logs / "skr-watcher.log"
        self._from = len(lines_of(self._path))

    def lines(self) -> list[dict[str, Any]]:
        return lines_of(self._path)[self._from :]

    def refused(self, status: int) -> bool:
        return any(line.get("reason") == str(status) for line in self.lines())


@asynccontextmanager
async def bundles_seen(stage: Stage, seen: list[set[int]]) -> AsyncGenerator[None, None]:
    """Note how many CAs the API server trusts whenever its webhooks change, however short that lasts."""
    informer = Informer(stage.skr, WEBHOOKS)

    def note(change: Change[JsonObject]) -> None:
        if change.new is not None and change.new["metadata"]["name"] == "skr-webhook":
            seen.append(trusted_in(change.new))

    informer.on_change(note)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(informer.run())
        await informer.wait_synced(60)
        yield
        watching.cancel()


async def test_ca_is_replaced_and_no_event_fails(story: Story, capacities: Iterator[str]) -> None:
    stage, log = story.stage, WatcherLog(story.stage)
    before = await stage.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
    trusted: list[set[int]] = []
    distrusted_before = len(distrusted(stage))
    async with kubelet(stage) as mount, bundles_seen(stage, trusted):
        await stage.kcp.merge_patch(
            SECRETS, CA_SECRET, {"metadata": {"annotations": {ROTATE: "now"}}}, names.KCP_NAMESPACE
        )
        async with asyncio.timeout(240):
            while True:
                await story.change_volume(next(capacities))
                after = await stage.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
                if after.data["tls.crt"] != before.data["tls.crt"] and not after.data.keys() & {"former.crt"}:
                    break
        await eventually(lambda: (mount / "ca.crt").read_text().count("BEGIN CERTIFICATE") == 1)
        await story.change_volume(next(capacities))
    assert {2} in trusted, "both were trusted for a while"
    assert after.data.keys() == {"tls.crt", "tls.key", "ca.crt"}
    assert (mount / "ca.crt").read_bytes() == base64.b64decode(after.data["tls.crt"])
    ours = await stage.kcp.get(WEBHOOKS, "lifecycle-manager")
    assert {each["clientConfig"]["caBundle"] for each in ours["webhooks"]} == {after.data["ca.crt"]}
    assert not list(filter(went_wrong, log.lines()))
    assert distrusted(stage)[distrusted_before:] == []


async def test_revoked_certificate_is_refused_and_replaced(story: Story, capacities: Iterator[str]) -> None:
    stage, log = story.stage, WatcherLog(story.stage)
    await story.change_volume(next(capacities))
    mount = stage.directory / TLS_SECRET
    before = describe((mount / "tls.crt").read_bytes())
    moment = datetime.now(UTC)
    patch = {"metadata": {"annotations": {names.REVOKED_BEFORE: moment.isoformat()}}}
    await stage.kcp.merge_patch(KYMAS, "demo", patch, names.KCP_NAMESPACE)
    await eventually(lambda: log.refused(403), what="the Watcher is answered 403")
    async with kubelet(stage):
        await eventually(lambda: describe((mount / "tls.crt").read_bytes()).sha256 != before.sha256)
        await changes_are_told(story, 2900)
    assert describe((mount / "tls.crt").read_bytes()).not_before >= moment


async def test_cluster_whose_certificates_are_revoked_until_further_notice_says_so(
    story: Story, capacities: Iterator[str]
) -> None:
    stage = story.stage
    patch: dict[str, Any] = {"metadata": {"annotations": {names.REVOKED_BEFORE: "until we know more"}}}
    await stage.kcp.merge_patch(KYMAS, "demo", patch, names.KCP_NAMESPACE)

    async def reason() -> str:
        kyma = await stage.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
        return next(each.reason for each in kyma.status.conditions if each.type == "SKRWebhook")

    async def revoked() -> bool:
        return await reason() == "CertificatesRevoked"

    async def ready() -> bool:
        return await reason() == "WatcherReady"

    await eventually(revoked)
    patch["metadata"]["annotations"][names.REVOKED_BEFORE] = None
    await stage.kcp.merge_patch(KYMAS, "demo", patch, names.KCP_NAMESPACE)
    await eventually(ready)
    await story.change_volume(next(capacities))
