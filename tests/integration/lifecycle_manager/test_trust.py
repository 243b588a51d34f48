"""An operator rotates the CA, or revokes a cluster's certificate, while users make changes."""

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
from kyma_demo.environment import Environment
from kyma_demo.programs import TLS_SECRET
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager.watcher_certificates.ca_store import ROTATE
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.event_path import (
    changes_are_reported,
    is_failure,
    kubelet,
    lines_of,
    tls_errors,
)
from tests.kinds import WEBHOOKS
from tests.waiting import eventually

CA_SECRET = "klm-watcher"


@pytest.fixture
def capacities() -> Iterator[str]:
    return (f"{number}Gi" for number in count(2000))


def ca_counts(webhook: dict[str, Any]) -> set[int]:
    """Return how many CAs the API server trusts, for each webhook."""
    bundles = [base64.b64decode(each["clientConfig"]["caBundle"]) for each in webhook["webhooks"]]
    return {bundle.count(b"BEGIN CERTIFICATE") for bundle in bundles}


class WatcherLog:
    """The log lines of the Watcher since the creation of this object."""

    def __init__(self, environment: Environment) -> None:
        self._path = environment.logs / "skr-watcher.log"
        self._from = len(lines_of(self._path))

    def lines(self) -> list[dict[str, Any]]:
        return lines_of(self._path)[self._from :]

    def refused(self, status: int) -> bool:
        return any(line.get("reason") == str(status) for line in self.lines())


@asynccontextmanager
async def record_ca_counts(environment: Environment, seen: list[set[int]]) -> AsyncGenerator[None, None]:
    """Record how many CAs the API server trusts at every change of its webhooks."""
    informer = Informer(environment.skr, WEBHOOKS)

    def note(change: Change[JsonObject]) -> None:
        if change.new is not None and change.new["metadata"]["name"] == "skr-webhook":
            seen.append(ca_counts(change.new))

    informer.on_change(note)
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(informer.run())
        await informer.wait_synced(60)
        yield
        watching.cancel()


async def test_rotation_of_the_ca_fails_no_event(walkthrough: Walkthrough, capacities: Iterator[str]) -> None:
    environment, log = walkthrough.environment, WatcherLog(walkthrough.environment)
    before = await environment.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
    trusted: list[set[int]] = []
    earlier_errors = len(tls_errors(environment))
    async with kubelet(environment) as mount, record_ca_counts(environment, trusted):
        await environment.kcp.merge_patch(
            SECRETS, CA_SECRET, {"metadata": {"annotations": {ROTATE: "now"}}}, names.KCP_NAMESPACE
        )
        async with asyncio.timeout(240):
            while True:
                await walkthrough.change_volume(next(capacities))
                after = await environment.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
                if after.data["tls.crt"] != before.data["tls.crt"] and not after.data.keys() & {"former.crt"}:
                    break
        await eventually(lambda: (mount / "ca.crt").read_text().count("BEGIN CERTIFICATE") == 1)
        await walkthrough.change_volume(next(capacities))
    assert {2} in trusted, "both CAs were trusted meanwhile"
    assert after.data.keys() == {"tls.crt", "tls.key", "ca.crt"}
    assert (mount / "ca.crt").read_bytes() == base64.b64decode(after.data["tls.crt"])
    ours = await environment.kcp.get(WEBHOOKS, "lifecycle-manager")
    assert {each["clientConfig"]["caBundle"] for each in ours["webhooks"]} == {after.data["ca.crt"]}
    assert not list(filter(is_failure, log.lines()))
    assert tls_errors(environment)[earlier_errors:] == []


async def test_revoked_certificate_is_refused_and_replaced(walkthrough: Walkthrough, capacities: Iterator[str]) -> None:
    environment, log = walkthrough.environment, WatcherLog(walkthrough.environment)
    await walkthrough.change_volume(next(capacities))
    mount = environment.directory / TLS_SECRET
    before = describe((mount / "tls.crt").read_bytes())
    moment = datetime.now(UTC)
    patch = {"metadata": {"annotations": {names.REVOKED_BEFORE: moment.isoformat()}}}
    await environment.kcp.merge_patch(KYMAS, "demo", patch, names.KCP_NAMESPACE)
    await eventually(lambda: log.refused(403), what="the Watcher gets 403")
    async with kubelet(environment):
        await eventually(lambda: describe((mount / "tls.crt").read_bytes()).sha256 != before.sha256)
        await changes_are_reported(walkthrough, 2900)
    assert describe((mount / "tls.crt").read_bytes()).not_before >= moment


async def test_revocation_without_a_time_is_reported_until_it_ends(
    walkthrough: Walkthrough, capacities: Iterator[str]
) -> None:
    environment = walkthrough.environment
    patch: dict[str, Any] = {"metadata": {"annotations": {names.REVOKED_BEFORE: "until we know more"}}}
    await environment.kcp.merge_patch(KYMAS, "demo", patch, names.KCP_NAMESPACE)

    async def reason() -> str:
        kyma = await environment.kcp.get(KYMAS, "demo", names.KCP_NAMESPACE)
        return next(each.reason for each in kyma.status.conditions if each.type == "SKRWebhook")

    async def revoked() -> bool:
        return await reason() == "CertificatesRevoked"

    async def ready() -> bool:
        return await reason() == "WatcherReady"

    await eventually(revoked)
    patch["metadata"]["annotations"][names.REVOKED_BEFORE] = None
    await environment.kcp.merge_patch(KYMAS, "demo", patch, names.KCP_NAMESPACE)
    await eventually(ready)
    await walkthrough.change_volume(next(capacities))
