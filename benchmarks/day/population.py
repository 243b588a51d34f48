"""The user clusters of a control plane while they join, are changed, and leave."""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import defaultdict
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from benchmarks.day import documents
from benchmarks.processes.fleet import FleetProcess
from benchmarks.processes.fleet_documents import Document, kyma_name
from kube_runtime import Client, ClusterUnreachable, NotFound, Resource
from kyma_local.clusters import LocalClusters
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import names

KCP = names.KCP_NAMESPACE
JOINS_AT_A_TIME = 10


@dataclass(eq=False, kw_only=True)
class Population(ABC):
    """User clusters with their control plane. `touched` are the times at which something was done to a cluster."""

    clusters: LocalClusters
    kcp: Client
    fleet: FleetProcess
    chance: random.Random
    speed: float
    joined: set[str] = field(default_factory=set)
    leaving: set[str] = field(default_factory=set)
    left: set[str] = field(default_factory=set)
    touched: defaultdict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    hostile: set[str] = field(default_factory=set)
    numbers: int = 0
    of_modules: tuple[str, ...] = ("module-", "thing-")
    """How the names of the modules' objects begin."""

    @abstractmethod
    def kyma_of(self, name: str, number: int) -> Document:
        """Return the Kyma of a cluster that joins."""

    async def patch(self, resource: Resource[Any], name: str, patch: Document, *, by: str) -> None:
        """Change an object of the control plane; while that does not answer, people repeat it."""

        async def is_done() -> bool:
            try:
                await self.kcp.merge_patch(resource, name, patch, KCP, field_manager=by)
            except ClusterUnreachable:
                return False
            return True

        await eventually(is_done, every=1.0)

    async def pause(self, minutes: float, at_least: float = 0.0) -> None:
        """Wait for some minutes of the day."""
        await asyncio.sleep(max(minutes * 60 / self.speed, at_least))

    async def join(self, count: int) -> list[str]:
        """Let clusters join, as a broker registers them."""
        first, self.numbers = self.numbers, self.numbers + count
        turns = asyncio.Semaphore(JOINS_AT_A_TIME)

        async def join_one(number: int) -> str:
            name = kyma_name(number)
            async with turns:
                given = await self.fleet.do("join", name=name, number=number)
                secret = documents.access_secret(name, given["kubeconfig"])
                kyma = self.kyma_of(name, number)
                await self.kcp.create(SECRETS, secret, KCP, field_manager="broker")
                await self.kcp.create(KYMAS, kyma, KCP, field_manager="broker")
            self.joined.add(name)
            self.touched[name].append(time.time())
            return name

        return list(await asyncio.gather(*map(join_one, range(first, first + count))))

    async def leave(self, name: str) -> list[str]:
        """Let a cluster leave, as a broker does; return what is left in it."""
        self.joined.discard(name)
        self.leaving.add(name)
        self.touched[name].append(time.time())
        await self._delete(KYMAS, name)
        await eventually(lambda: self._is_gone(name), every=0.5)
        await self._delete(SECRETS, f"kubeconfig-{name}")
        self.leaving.discard(name)
        self.left.add(name)
        return list((await self.fleet.do("remove", name=name))["remaining"])

    async def _delete(self, resource: Resource[Any], name: str) -> None:
        """Delete an object that may be gone; while the control plane does not answer, a broker repeats it."""
        while True:
            with suppress(ClusterUnreachable):
                with suppress(NotFound):
                    await self.kcp.delete(resource, name, KCP)
                return
            await asyncio.sleep(1)

    async def forget_those_that_left(self) -> None:
        """Delete again what a restored control plane knows of clusters that have left, or are leaving."""
        for name in sorted(self.left | self.leaving):
            await self._delete(KYMAS, name)
            if name in self.left:
                await self._delete(SECRETS, f"kubeconfig-{name}")

    async def _is_gone(self, name: str) -> bool:
        try:
            await self.kcp.get(KYMAS, name, KCP)
        except NotFound:
            return True
        except ClusterUnreachable:  # the API server is restarted
            pass
        return False
