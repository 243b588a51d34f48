"""The client of an SKR for the length of one reconcile, requested only by the first step that needs it."""

from contextlib import AsyncExitStack

from kube_runtime import Client
from lifecycle_manager.skr import Connections


class LazySkrClient(AsyncExitStack):
    """Lends one client to all steps of a reconcile: a step never acts on another cluster than the steps before it."""

    def __init__(self, connections: Connections, kyma: str) -> None:
        super().__init__()
        self._connections = connections
        self._kyma = kyma
        self._client: Client | None = None

    async def client(self) -> Client:
        """Return the client. Raises SkrAccessError."""
        if self._client is None:
            self._client = await self.enter_async_context(self._connections.to(self._kyma))
        return self._client
