"""The Watchers of both versions as clients of the event endpoint: the former one does not sign, ours does."""

import asyncio
import base64
import secrets
import ssl
import time
from pathlib import Path
from typing import Protocol

import httpx

from kube_runtime import Client
from kyma_certs import KeyPair
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import names
from skr_watcher.changes import ObjectChange
from skr_watcher.delivery import Delivery, Identity
from skr_watcher.metrics import Metrics
from skr_watcher.outbox import Entry, Outbox
from skr_watcher.settings import SkrWatcherSettings
from tests.integration.takeover.conftest import Takeover
from tests.security.events.serving import write_files

EVENT = {
    "watched": {"Namespace": names.SKR_NAMESPACE, "Name": names.DEFAULT_KYMA_NAME},
    "watchedGvk": {"group": names.GROUP, "version": "v1beta2", "kind": "Kyma"},
}
RESYNC = ObjectChange("lifecycle-manager", "", "", "", "", "", "RESYNC", "", "", 0)


async def send_unsigned(
    world: Takeover, folder: Path, pair: KeyPair, trust: bytes, manager: str = "lifecycle-manager"
) -> int:
    """Send an event as the former Watcher does, by a connection of its own; return the status of the answer."""
    certificate, key, _ = write_files(folder / "former", pair, trust)
    context = ssl.create_default_context(cadata=trust.decode())
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.load_cert_chain(certificate, key)
    async with httpx.AsyncClient(verify=context, trust_env=False, timeout=60) as client:
        url = f"https://127.0.0.1:{world.event_port}/v2/{manager}/event"
        return (await client.post(url, json=EVENT)).status_code


class Watched(Protocol):
    """A cluster, and the port of the event endpoint."""

    @property
    def skr(self) -> Client:
        """The cluster."""

    @property
    def event_port(self) -> int:
        """The port on loopback."""


async def mounted(world: Watched) -> tuple[KeyPair, bytes]:
    """Return the certificate that is in the cluster, and what it trusts."""
    secret = await world.skr.get(SECRETS, "skr-webhook-tls", names.SKR_NAMESPACE)
    data = {key: base64.b64decode(value) for key, value in secret.data.items()}
    return KeyPair(data["tls.crt"], data["tls.key"]), data["ca.crt"]


async def deliver_signed(world: Watched, folder: Path) -> None:
    """Have our Watcher start with the Secret that is in the cluster, and deliver its first event."""
    certificate, key, ca = write_files(folder / "ours", *await mounted(world))
    address = f"127.0.0.1:{world.event_port}"
    settings = SkrWatcherSettings(tls_cert=certificate, tls_key=key, ca_cert=ca, kcp_address=address)
    outbox = Outbox(10)
    async with asyncio.TaskGroup() as tasks:
        working = tasks.create_task(Delivery(settings, outbox, Identity(settings), Metrics()).run())
        outbox.put(Entry(RESYNC, 1, time.time(), secrets.token_hex(16), ""))
        await asyncio.wait_for(outbox.drained(), 60)
        working.cancel()
