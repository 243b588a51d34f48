"""Plays the Watchers of the simulated clusters: each sends the first event, after which its cluster can be Ready."""

import asyncio
from dataclasses import dataclass, field

import aiohttp

from kube_runtime import Client
from kyma_demo.rollout.senders import EventSigner
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager_api import WatchEvent, names

SUFFIX = "-webhook-tls"
INTERVAL_SECONDS = 0.5
FIRST_EVENT = WatchEvent(operation="HEARTBEAT")


@dataclass(eq=False)
class SimulatedWatchers:
    """Sends one event for each certificate that the Lifecycle Manager has issued; another one where it was refused."""

    kcp: Client
    event_port: int
    _sent: dict[str, str] = field(default_factory=dict)

    async def run(self) -> None:
        """Send events until cancelled. Raises KubeError."""
        # A connection belongs to the certificate that it was opened with.
        connector = aiohttp.TCPConnector(force_close=True)
        async with aiohttp.ClientSession(connector=connector) as session:
            while True:
                found = (await self.kcp.list(SECRETS, names.KCP_NAMESPACE)).items
                issued = {
                    each.metadata.name: each
                    for each in found
                    if each.metadata.name.endswith(SUFFIX)
                    and self._sent.get(each.metadata.name) != each.metadata.resource_version
                }
                for name, secret in issued.items():
                    if await self._is_accepted(session, EventSigner.of(secret.data)):
                        self._sent[name] = secret.metadata.resource_version
                await asyncio.sleep(INTERVAL_SECONDS)

    async def _is_accepted(self, session: aiohttp.ClientSession, sender: EventSigner) -> bool:
        url = f"https://127.0.0.1:{self.event_port}/v2/lifecycle-manager/event"
        body, headers = sender.signed(url, FIRST_EVENT)
        try:
            async with session.post(url, data=body, headers=headers, ssl=sender.tls) as answer:
                return answer.status == 200
        except aiohttp.ClientError:  # the Lifecycle Manager starts
            return False
