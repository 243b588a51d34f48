"""Hands events over to other replicas by mutual TLS, in batches: those that arrived during the request before.

Of the events of three replicas two thirds are handed over, and a request for each would cost more than they do.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

import httpx
import msgspec
import structlog

from kube_runtime.leases.handover import NotHandedOver
from kube_runtime.leases.membership import Member
from kyma_certs import ReloadingClientContext
from lifecycle_manager.contract.dns_names import REPLICA_HOST
from lifecycle_manager.events.endpoint import VerifiedEvent
from lifecycle_manager.replicas.message import MAX_BATCH, PATH, DeliveryResult, Handed

log = structlog.get_logger("replicas")

MAX_WAITING = 2_000
MAX_ANSWER_BYTES = 64 * 1024
TIMEOUT_SECONDS = 2.0
IDLE_SECONDS = 60.0


@dataclass(eq=False)
class Deliveries:
    """Sends events to other replicas. `identity` returns the certificate of this one, which exists once `run` is."""

    identity: Callable[[], ReloadingClientContext]
    _links: dict[str, "_Link"] = field(default_factory=dict, init=False)
    _tasks: asyncio.TaskGroup | None = field(default=None, init=False)

    async def run(self) -> None:
        """Send until cancelled."""
        try:
            async with asyncio.TaskGroup() as self._tasks:
                await asyncio.Event().wait()
        finally:
            self._tasks = None

    async def deliver(self, to: Member, kyma_name: str, verified: VerifiedEvent) -> None:
        """Have another replica take an event. Raises NotHandedOver."""
        link = self._links.get(to.identity)
        if link is None or link.closed:
            if self._tasks is None:
                raise NotHandedOver("this replica is stopping")
            link = self._links[to.identity] = _Link(to, self.identity())
            self._tasks.create_task(self._keep(link))
        await link.give(Handed(kyma_name, verified))

    async def _keep(self, link: "_Link") -> None:
        """Use a link while there are events to send; the next event opens another.

        What fails with one replica must not end this one, which has Kymas of its own.
        """
        try:
            await link.run()
        except Exception:
            log.exception("the link to a replica failed", to=link.to.identity)
        finally:
            if self._links.get(link.to.identity) is link:
                del self._links[link.to.identity]


class _Link:
    """The connection to one other replica: one request at a time."""

    def __init__(self, to: Member, identity: ReloadingClientContext) -> None:
        self.to = to
        self.closed = False
        self._identity = identity
        self._waiting: deque[tuple[Handed, asyncio.Future[None]]] = deque()
        self._filled = asyncio.Event()

    async def give(self, handed: Handed) -> None:
        """Return once the event was taken. Raises NotHandedOver where it was not."""
        if len(self._waiting) >= MAX_WAITING:
            raise NotHandedOver(f"{MAX_WAITING} events wait for {self.to.identity}")
        taken = asyncio.get_running_loop().create_future()
        self._waiting.append((handed, taken))
        self._filled.set()
        await taken

    async def run(self) -> None:
        """Send waiting events, until there were none for a minute."""
        try:
            while await self._run_with_one_certificate() or self._waiting:
                log.debug("reconnecting", to=self.to.identity)
        finally:
            self.closed = True
            for _, taken in self._waiting:
                _settle(taken, NotHandedOver(f"the connection to {self.to.identity} is closed"))

    async def _run_with_one_certificate(self) -> bool:
        """Send until no event waits, or the certificate was replaced; return whether it was replaced."""
        self._identity.check()
        context = self._identity.ssl_context
        async with httpx.AsyncClient(verify=context, timeout=TIMEOUT_SECONDS, trust_env=False) as client:
            while await self._is_filled():
                self._identity.check()
                if self._identity.ssl_context is not context:
                    return True
                await self._send_waiting(client)
        return False

    async def _is_filled(self) -> bool:
        try:
            async with asyncio.timeout(IDLE_SECONDS):
                await self._filled.wait()
        except TimeoutError:
            return False
        return True

    async def _send_waiting(self, client: httpx.AsyncClient) -> None:
        self._filled.clear()
        left = len(self._waiting)
        while left:
            batch = [self._waiting.popleft() for _ in range(min(MAX_BATCH, left))]
            left -= len(batch)
            refused = set(range(len(batch)))
            try:
                refused = set((await self._send(client, [handed for handed, _ in batch])).refused)
            except (httpx.HTTPError, httpx.InvalidURL, msgspec.DecodeError) as error:
                log.warning("events could not be handed over", to=self.to.identity, error=repr(error))
            finally:
                for position, (_, taken) in enumerate(batch):
                    failure = NotHandedOver(f"{self.to.identity} did not take it") if position in refused else None
                    _settle(taken, failure)

    async def _send(self, client: httpx.AsyncClient, batch: list[Handed]) -> DeliveryResult:
        received = bytearray()
        async with client.stream(
            "POST",
            f"https://{self.to.address}{PATH}",
            content=msgspec.json.encode(batch),
            headers={"Content-Type": "application/json", "Accept-Encoding": "identity"},
            extensions={"sni_hostname": REPLICA_HOST},
        ) as response:
            response.raise_for_status()
            async for part in response.aiter_raw():
                received += part
                if len(received) > MAX_ANSWER_BYTES:
                    raise httpx.RemoteProtocolError(f"{self.to.identity} answers more than {MAX_ANSWER_BYTES} bytes")
        return msgspec.json.decode(bytes(received), type=DeliveryResult)


def _settle(taken: "asyncio.Future[None]", error: NotHandedOver | None) -> None:
    if taken.done():
        return  # the request that waited was cancelled
    if error is None:
        taken.set_result(None)
    else:
        taken.set_exception(error)
