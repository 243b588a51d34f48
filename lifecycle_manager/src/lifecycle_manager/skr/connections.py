"""One pooled client for each SKR in use.

A client is made from the access Secret when its SKR is first needed, kept while the kubeconfig is unchanged, and
replaced when that changes, so that a rotated kubeconfig is followed without a restart. The number of idle clients is
limited: the one that was not used for longest is closed first. A client is closed when nobody uses it any more.

An SKR that does not answer gets no further requests, each of which would time out; it is probed (see `probe`) until it
answers.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from kube_runtime import (
    Client,
    ClientOptions,
    ClusterUnreachable,
    Informer,
    KubeconfigInvalid,
    KubeconfigPolicy,
    KubeconfigRefused,
)
from lifecycle_manager.contract.resources import Secret
from lifecycle_manager.skr.access import (
    ACCESS_SECRETS,
    KUBECONFIG_KEY,
    AccessSecretUnusable,
    SkrAccessError,
    SkrUnreachable,
    choose_access_secret,
    kubeconfig_in,
    server_of,
)

MAX_MISSING = 100_000
"""Of how many Kymas without an access Secret it is known since when."""


@dataclass(eq=False, slots=True)
class _Connection:
    secret_version: tuple[str | None, str | None]
    client: Client
    users: int = 0
    retired: bool = False


@dataclass(eq=False)
class Connections:
    """Lends clients for SKRs, by the name of their Kyma.

    `secrets` must have the index ACCESS_SECRETS. At most `max_clients` idle clients are kept. `fence` is called before
    every write, and raises where this process may not write. `on_silence` is called with the name of a Kyma whose SKR
    did not answer, so that it is probed.
    """

    secrets: Informer[Secret]
    options: ClientOptions
    policy: KubeconfigPolicy
    max_clients: int = 1000
    fence: Callable[[], None] = lambda: None
    on_silence: Callable[[str], object] = lambda _: None
    _connections: OrderedDict[str, _Connection] = field(default_factory=OrderedDict, init=False)
    _opening: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)
    _closing: set[asyncio.Task[None]] = field(default_factory=set, init=False)
    _missing_since: dict[str, float] = field(default_factory=dict, init=False)
    _silent: dict[str, ClusterUnreachable] = field(default_factory=dict, init=False)
    """Why SKRs did not answer whose client was closed for others: a new one would wait for each of them again."""

    @asynccontextmanager
    async def to(self, kyma_name: str, *, may_be_silent: bool = False) -> AsyncIterator[Client]:
        """Lend the client of a Kyma's SKR.

        Raises SkrAccessError where the credentials are missing or unusable, or the SKR did not answer lately, unless it
        `may_be_silent`. Nothing is sent to the SKR by this call.
        """
        if not may_be_silent and (failure := self._silent.get(kyma_name)) is not None:
            self.on_silence(kyma_name)
            raise SkrUnreachable(failure)
        connection, closing = await self._acquire(kyma_name)
        client = connection.client
        try:
            await _ended(closing)
            if client.failure is not None and not may_be_silent:
                raise SkrUnreachable(client.failure)
            yield client
        finally:
            connection.users -= 1
            if client.failure is not None and not may_be_silent:
                self.on_silence(kyma_name)
            if connection.retired:
                await _ended(self._close_unused(connection))

    def access_secret(self, kyma_name: str) -> Secret:
        """Return the access Secret of a Kyma. Raises AccessSecretMissing."""
        return choose_access_secret(kyma_name, self.secrets.by_index(ACCESS_SECRETS, kyma_name))

    def have_access(self, kyma_name: str) -> bool:
        return bool(self.secrets.by_index(ACCESS_SECRETS, kyma_name))

    def missing_for(self, kyma_name: str, *, now: float) -> float | None:
        """Return for how many seconds a Kyma is known to have no access Secret; None where it has one.

        A restart of the process begins to count again. `now` is the monotonic time.
        """
        if self.have_access(kyma_name):
            self._missing_since.pop(kyma_name, None)
            return None
        while len(self._missing_since) >= MAX_MISSING:
            del self._missing_since[next(iter(self._missing_since))]  # its time begins again
        return now - self._missing_since.setdefault(kyma_name, now)

    def found(self, kyma_name: str) -> None:
        """Note that the access Secret of a Kyma has changed: the time without one, or without answers, begins again."""
        self._missing_since.pop(kyma_name, None)
        self._silent.pop(kyma_name, None)

    def lead_to_the_same_cluster(self, *kyma_names: str) -> bool:
        """Tell whether the access Secrets of these Kymas have the address of the same API server."""
        try:
            servers = {server_of(self.access_secret(name)) for name in kyma_names}
        except SkrAccessError:
            return False
        return len(servers) == 1 and None not in servers

    async def probe(self, kyma_name: str) -> None:
        """Send a request to an SKR, whether it answered lately or not. Raises SkrAccessError, ClusterUnreachable."""
        async with self.to(kyma_name, may_be_silent=True) as client:
            await client.probe()
        self._silent.pop(kyma_name, None)

    async def close(self) -> None:
        """Close every client, in use or not."""
        connections, self._connections = self._connections, OrderedDict()
        for connection in connections.values():
            self._start_to_close(connection)
        await _ended(self._closing)
        if self.options.session is not None:
            await self.options.session.close()

    async def _acquire(self, kyma_name: str) -> tuple[_Connection, set["asyncio.Task[None]"]]:
        """Return the connection of a Kyma with one more user, and the ends of those that were retired for it.

        Nothing is awaited here once the user is counted: it could be cancelled, and would be counted for ever.
        """
        closing: set[asyncio.Task[None]] = set()
        connection = self._current(kyma_name, self.access_secret(kyma_name))
        if connection is None:
            async with self._opening.setdefault(kyma_name, asyncio.Lock()):
                secret = self.access_secret(kyma_name)
                connection = self._current(kyma_name, secret)
                if connection is None:
                    connection = _Connection(_version_of(secret), await self._open(secret))
                    if kyma_name in self._connections:  # it may have been retired meanwhile
                        closing |= self._retire(kyma_name)
                    self._connections[kyma_name] = connection
        connection.users += 1
        self._connections.move_to_end(kyma_name)
        while len(self._connections) > self.max_clients:
            oldest, unused = next(iter(self._connections.items()))
            if unused.client.failure is not None and self.have_access(oldest):
                self._silent[oldest] = unused.client.failure
            closing |= self._retire(oldest)
        return connection, closing

    def _current(self, kyma_name: str, secret: Secret) -> _Connection | None:
        """Return the connection of a Kyma, None where there is none with this access Secret."""
        connection = self._connections.get(kyma_name)
        return connection if connection is not None and connection.secret_version == _version_of(secret) else None

    async def _open(self, secret: Secret) -> Client:
        try:
            client = await Client.from_kubeconfig(kubeconfig_in(secret), options=self.options, policy=self.policy)
        except KubeconfigInvalid as error:
            raise AccessSecretUnusable(secret, str(error)) from None
        except KubeconfigRefused as error:
            raise AccessSecretUnusable(secret, f"{error}; --allow-insecure-kubeconfigs accepts it") from None
        return client.fenced_by(self.fence)

    def _retire(self, kyma_name: str) -> set["asyncio.Task[None]"]:
        """Lend a connection no more, and close it once nobody uses it."""
        connection = self._connections.pop(kyma_name)
        connection.retired = True
        return self._close_unused(connection)

    def _close_unused(self, connection: _Connection) -> set["asyncio.Task[None]"]:
        return set() if connection.users else {self._start_to_close(connection)}

    def _start_to_close(self, connection: _Connection) -> "asyncio.Task[None]":
        """Close a client in a task of its own, which goes on where whoever waits for it is cancelled."""
        closing = asyncio.create_task(connection.client.close())
        self._closing.add(closing)
        closing.add_done_callback(self._closing.discard)
        return closing


def _version_of(secret: Secret) -> tuple[str | None, str | None]:
    """Return what a client is made from. Others may change labels and annotations as they like."""
    return secret.metadata.uid, secret.data.get(KUBECONFIG_KEY)


async def _ended(tasks: set["asyncio.Task[None]"]) -> None:
    if tasks:
        await asyncio.wait(tasks)
