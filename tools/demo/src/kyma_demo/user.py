"""What the user of the demo does in their cluster, and what they see of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from kube_runtime import Client, NotFound, NotServed, Resource
from kyma_demo import names
from kyma_demo.environment import Environment, infrastructure
from kyma_demo.module_cr import NETWORK
from kyma_demo.object_watcher import CONFIG_MAPS, ObjectWatcher
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import names as api_names

IN_FORCE_SECONDS = 60.0  # usually a fraction of a second
INFRASTRUCTURES: Resource[dict[str, Any]] = Resource.dynamic(
    "cloud-resources.kyma-project.io", "v1beta1", "Infrastructure", "infrastructures", namespaced=True
)


@dataclass(eq=False)
class DemoUser:
    """The user of one cluster."""

    environment: Environment
    object_watcher: ObjectWatcher = field(init=False)
    module_cr_watcher: ObjectWatcher = field(init=False)

    def __post_init__(self) -> None:
        self.object_watcher = ObjectWatcher(self.environment.skr, CONFIG_MAPS, names.SKR_NAMESPACE)
        self.module_cr_watcher = ObjectWatcher(self.environment.skr, INFRASTRUCTURES, names.SKR_NAMESPACE)

    async def change_volume(self, capacity: str, *, within: float = IN_FORCE_SECONDS) -> float:
        """Change the capacity of the volume `media` as the user; return the milliseconds until it is in force.

        Creates the Infrastructure if it does not exist. Raises NotSeen if the change does not arrive.
        """
        wanted = infrastructure(names.INFRASTRUCTURE, {"media": capacity}, {"billing": NETWORK})

        async def write() -> None:
            if (
                await maybe_get(self.environment.skr, INFRASTRUCTURES, names.INFRASTRUCTURE, names.SKR_NAMESPACE)
                is None
            ):
                await self._create_infrastructure(wanted)
            else:
                await self._patch_infrastructure(names.INFRASTRUCTURE, {"spec": wanted["spec"]})

        _, milliseconds = await self._user_writes("media", capacity, write, within=within)
        return milliseconds

    async def patch_volume(self, capacity: str) -> None:
        """Change the capacity of the volume `media` as the user, without waiting for the result."""
        wanted = infrastructure("", {"media": capacity}, {"billing": NETWORK})
        await self._patch_infrastructure(names.INFRASTRUCTURE, {"spec": wanted["spec"]})

    async def wait_for_volume(self, capacity: str, *, within: float = IN_FORCE_SECONDS) -> None:
        """Wait until the objects of the volume `media` have a capacity. Raises NotSeen at the deadline."""
        name = f"{names.INFRASTRUCTURE}-nfs-media"
        await self.object_watcher.wait_for(name, lambda it: capacity_of(it) == capacity, within=within)

    async def set_modules(self, modules: list[dict[str, Any]]) -> None:
        """Choose the modules of the SKR as the user."""
        patch = {"spec": {"modules": modules}}
        await self.environment.skr.merge_patch(
            KYMAS, api_names.DEFAULT_KYMA_NAME, patch, names.SKR_NAMESPACE, field_manager=names.USER
        )

    async def create_second(self, volume: str, capacity: str) -> None:
        """Create a second Infrastructure as the user, and wait until its volume is in force."""
        await self._create_infrastructure(infrastructure("second", {volume: capacity}, {}))
        await self.object_watcher.wait_for(
            f"second-nfs-{volume}", lambda it: capacity_of(it) == capacity, within=IN_FORCE_SECONDS
        )

    async def _user_writes(
        self, volume: str, capacity: str, write: Callable[[], Awaitable[object]], *, within: float = IN_FORCE_SECONDS
    ) -> tuple[datetime, float]:
        """Write as the user; return the time, and the milliseconds until the ConfigMap of a volume has it."""
        name = f"{names.INFRASTRUCTURE}-nfs-{volume}"
        seen = asyncio.ensure_future(
            self.object_watcher.wait_for(name, lambda it: capacity_of(it) == capacity, within=within)
        )
        wall, started = datetime.now(UTC), time.perf_counter()
        try:
            await write()
            moment = await seen
        finally:
            seen.cancel()
        return wall, (moment - started) * 1000

    async def _create_infrastructure(self, document: dict[str, Any]) -> None:
        await self.environment.skr.create(INFRASTRUCTURES, document, names.SKR_NAMESPACE, field_manager=names.USER)

    async def _patch_infrastructure(self, name: str, patch: dict[str, Any]) -> None:
        await self.environment.skr.merge_patch(
            INFRASTRUCTURES, name, patch, names.SKR_NAMESPACE, field_manager=names.USER
        )


async def maybe_get(client: Client, resource: Resource[Any], name: str, namespace: str | None) -> Any:
    try:
        return await client.get(resource, name, namespace)
    except (NotFound, NotServed):
        return None


def capacity_of(config_map: dict[str, Any] | None) -> str | None:
    return None if config_map is None else config_map.get("data", {}).get("capacity")
