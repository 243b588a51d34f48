"""The clusters of the playground, as their administrators see them."""

from dataclasses import dataclass
from pathlib import Path

from kube_runtime import Client, NotFound
from lifecycle_manager.contract.resources import KYMAS
from lifecycle_manager_api import Kyma, names
from tests.e2e.start_pages.reader import COMMAND_SECONDS
from tests.kinds import CONFIG_MAPS
from tests.waiting import eventually

COMMAND = "klm playground"
FOLDER = Path(".local/playground")
SKR = names.SKR_NAMESPACE


@dataclass(frozen=True)
class Playground:
    """The control plane, the cluster `demo`, and the cluster `second`."""

    kcp: Client
    demo: Client
    second: Client

    async def states(self) -> dict[str, str]:
        """Return the states of the Kymas in the control plane."""
        return {
            each.metadata.name: each.status.state.value
            for each in (await self.kcp.list(KYMAS, names.KCP_NAMESPACE)).items
        }

    async def greetings(self) -> list[str]:
        """Return the versions of the module `greeting` that the clusters have."""
        found = []
        for client in (self.demo, self.second):
            try:
                found.append((await client.get(CONFIG_MAPS, "greeting", SKR))["data"]["version"])
            except NotFound:
                found.append("")
        return found

    async def wait_for(self, states: dict[str, str], greetings: list[str]) -> None:
        """Wait until Kymas have these states and clusters these versions."""

        async def so() -> bool:
            return (await self.states(), await self.greetings()) == (states, greetings)

        await eventually(so, within=COMMAND_SECONDS, what=f"{states} with {greetings}")


async def kyma_of(client: Client) -> Kyma:
    """Return the Kyma of a user cluster."""
    return await client.get(KYMAS, names.DEFAULT_KYMA_NAME, SKR)


async def modules_of(client: Client) -> dict[str, str]:
    """Return the modules that a user cluster has, with their states."""
    return {each.name: each.state.value for each in (await kyma_of(client)).status.modules}


async def config_maps_of(client: Client) -> dict[str, dict[str, str]]:
    """Return the data of the ConfigMaps of the modules."""
    return {each["metadata"]["name"]: each.get("data", {}) for each in (await client.list(CONFIG_MAPS, SKR)).items}
