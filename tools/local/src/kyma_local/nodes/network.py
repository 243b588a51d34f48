"""The networks of the nodes: a network namespace for each, joined by a bridge in that of the first.

Nothing is added to the network of the machine: a namespace ends with the process that holds it. API servers stay on
loopback, where this process forwards the connections from nodes to them.
"""

import asyncio
import ctypes
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from ssl import SSLContext
from typing import Self

from kyma_local.joining import Streams, join
from kyma_local.starting import StartFailed

CLONE_NEWNET = 0x40000000
BRIDGE = "clusters"
SERVICE_ADDRESSES = "10.0.0.0/16"
API_SERVER_PORT = 6443  # which the network policies of the charts allow


class NetworkFailed(StartFailed):
    """The network of a node cannot be made; the message says why."""


@dataclass(eq=False)
class NodeNetwork:
    """The network namespace of a node. `number` is that of its cluster: 1 is the control plane."""

    number: int
    _thread: ThreadPoolExecutor = field(init=False)
    _namespace: int = field(init=False)

    def __enter__(self) -> Self:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"network-{self.number}")
        try:
            self._namespace = self._thread.submit(_enter_new_namespace).result()
        except BaseException:
            self._thread.shutdown()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.shutdown()
        os.close(self._namespace)

    @property
    def address(self) -> str:
        """The address of the node."""
        return f"10.1.0.{self.number}"

    @property
    def pods(self) -> str:
        """The addresses of its Pods."""
        return f"10.2.{self.number}.0/24"

    @property
    def path(self) -> str:
        """The namespace as a path, for other processes."""
        return f"/proc/{os.getpid()}/fd/{self._namespace}"

    def make_first(self) -> None:
        """Make the bridge, in the network of the first node. Raises NetworkFailed."""
        self.run(f"link add name {BRIDGE} type bridge", f"address add {self.address}/24 dev {BRIDGE}")
        self.run(f"link set {BRIDGE} up", "link set lo up")

    def connect_to(self, first: "NodeNetwork") -> None:
        """Connect this node with the others. Raises NetworkFailed."""
        port = f"skr-{self.number - 1}"
        first.run(f"link add {port} type veth peer name eth0 netns {self.path}")
        first.run(f"link set {port} master {BRIDGE}", f"link set {port} up")
        first.run(f"route add {self.pods} via {self.address}")
        self.run(f"address add {self.address}/24 dev eth0", "link set eth0 up")
        self.run(f"route add default via {first.address}", "link set lo up")

    async def connect(self, host: str, port: int) -> Streams:
        """Connect to an address from the node: to its Pods, to a Service, to the kubelet. Raises OSError."""
        connection = await self._socket()
        try:
            await asyncio.get_running_loop().sock_connect(connection, (host, port))
        except BaseException:
            connection.close()
            raise
        return await asyncio.open_connection(sock=connection)

    @asynccontextmanager
    async def forwarding(
        self, target: int, *, port: int = API_SERVER_PORT, tls: SSLContext | None = None
    ) -> AsyncGenerator[None, None]:
        """Forward connections to a port of the node's address to one on loopback: that of the API server.

        With `tls`, TLS ends here.
        """

        async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                far = await asyncio.open_connection("127.0.0.1", target)
            except OSError:  # the server does not run now; the client retries
                writer.close()
                return
            await join((reader, writer), far)

        listening = await self._socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((self.address, port))
        async with await asyncio.start_server(handle, sock=listening, backlog=1024, ssl=tls):
            yield

    async def _socket(self) -> socket.socket:
        """Return a socket of the node's network: a socket belongs to the network of the thread that made it."""
        made = await asyncio.get_running_loop().run_in_executor(self._thread, socket.socket)
        made.setblocking(False)
        return made

    def run(self, *commands: str) -> None:
        """Run commands of `ip` in this network. Raises NetworkFailed."""
        for command in commands:
            self._thread.submit(_ip, command).result()


@contextmanager
def joined_networks(count: int) -> Iterator[tuple[NodeNetwork, ...]]:
    """Make the networks of a control plane and of its user clusters. Raises NetworkFailed."""
    with ExitStack() as stack:
        first, *others = (stack.enter_context(NodeNetwork(number)) for number in range(1, count + 1))
        first.make_first()
        for each in others:
            each.connect_to(first)
        yield (first, *others)


def _ip(command: str) -> None:
    done = subprocess.run(["ip", *command.split()], capture_output=True, text=True, check=False)  # noqa: S603, S607
    if done.returncode:
        raise NetworkFailed(f"ip {command}: {done.stderr.strip()}")


def _enter_new_namespace() -> int:
    """Move this thread to a new network namespace; return an open file that keeps it."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.unshare(CLONE_NEWNET):
        raise NetworkFailed(f"no new network namespace: {os.strerror(ctypes.get_errno())}")
    return os.open("/proc/thread-self/ns/net", os.O_RDONLY)
