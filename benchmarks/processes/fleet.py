"""The processes of the benchmark of a fleet: the simulated clusters, the Lifecycle Manager, and users with Watchers."""

import argparse
import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

from benchmarks.peers.cpu_time import cpu_seconds
from benchmarks.processes.fleet_documents import CONFIGURED, MODULES, VERSIONS, definition_of_things, kyma_name
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, dump_yaml
from kyma_demo.rollout.senders import EventSigner
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child, tail
from lifecycle_manager.contract.resources import SECRETS, Secret
from lifecycle_manager_api import Watched, WatchedGvk, WatchEvent, names
from tests.klm import KLM
from tests.registries import blob_server, packed

TIMEOUT_SECONDS = 3_600.0
Answer = dict[str, Any]


@dataclass(eq=False)
class FleetProcess:
    """The process with the simulated clusters."""

    process: asyncio.subprocess.Process
    ready: Answer = field(default_factory=dict)
    kubeconfig: Mapping[str, Any] = field(default_factory=dict)
    kubeconfigs: Sequence[Mapping[str, Any]] = ()
    _answers: asyncio.Queue[Answer] = field(default_factory=asyncio.Queue)
    _applied: dict[tuple[str, str], asyncio.Future[float]] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self) -> None:
        """Read its output until it ends."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            answer = json.loads(line)
            if "applied" in answer:
                self._applied.pop((answer["applied"][0], answer["applied"][1])).set_result(answer["at"])
            else:
                self._answers.put_nowait(answer)

    async def next_answer(self) -> Answer:
        """Return its next answer."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self._answers.get()

    async def do(self, command: str, **arguments: Any) -> Answer:
        """Send it a command, and return the answer."""
        assert self.process.stdin is not None
        async with self._turn:
            self.process.stdin.write(json.dumps({"do": command, **arguments}).encode() + b"\n")
            return await self.next_answer()

    def await_manifest(self, kyma: int, module: str) -> asyncio.Future[float]:
        """Return a future of the time at which a Manifest, or for the configured module a ModuleConfig, is written."""
        return self.await_applied(kyma_name(kyma), module)

    def await_applied(self, cluster: str, module: str) -> asyncio.Future[float]:
        """Return a future of the time at which what a command awaits is written."""
        self._applied[cluster, module] = written = asyncio.get_running_loop().create_future()
        return written


@dataclass(eq=False)
class User:
    """The user of one cluster, and the Watcher there, which reports the user's change of the Kyma CR."""

    kyma: int
    client: httpx.AsyncClient
    sender: EventSigner
    url: str
    sent: int = 0

    async def send_event(self, edited: Answer) -> None:
        """Send the signed event of a change of the Kyma CR, or of the Thing that the answer names."""
        group, version, kind = ("example.com", "v1", "Thing") if "name" in edited else (names.GROUP, "v1beta2", "Kyma")
        event = WatchEvent(
            watched=Watched(namespace=names.SKR_NAMESPACE, name=edited.get("name", names.DEFAULT_KYMA_NAME)),
            watched_gvk=WatchedGvk(group=group, version=version, kind=kind),
            operation="UPDATE",
            uid=edited["uid"],
            resource_version=edited["version"],
        )
        self.sent += 1
        body, headers = self.sender.signed(self.url, event)
        response = await self.client.post(self.url, content=body, headers=headers)
        response.raise_for_status()


@dataclass(eq=False)
class LifecycleManagerProcess:
    """A running Lifecycle Manager."""

    child: ChildProcess
    metrics_port: int

    def cpu_seconds(self) -> float:
        """Return the CPU time that the process has used."""
        return cpu_seconds(self.child.pid)

    async def wait_until_idle(self) -> None:
        """Wait until no key is due in any queue."""
        async with asyncio.timeout(TIMEOUT_SECONDS), httpx.AsyncClient(timeout=30) as client:
            while True:
                text = (await client.get(f"http://127.0.0.1:{self.metrics_port}/metrics")).text
                lines = [line for line in text.splitlines() if line.startswith("workqueue_depth{")]
                if lines and not any(float(line.rpartition(" ")[2]) for line in lines):
                    return
                await asyncio.sleep(1)

    async def wait_until_ready(self) -> None:
        """Wait until the process is ready, as a Service does before it routes anything to it."""
        async with asyncio.timeout(TIMEOUT_SECONDS), httpx.AsyncClient(timeout=30) as client:
            while True:
                with suppress(httpx.TransportError):
                    if (await client.get(f"http://127.0.0.1:{self.metrics_port}/readyz")).is_success:
                        return
                await asyncio.sleep(0.02)

    def peak_memory(self) -> float:
        """Return the peak memory of the process, in MB."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@asynccontextmanager
async def serve_layers(folder: Path, versions: Sequence[str] = VERSIONS) -> AsyncIterator[Path]:
    """Serve the layers of the modules, a ConfigMap each; yield the file with their digests."""
    async with blob_server() as layers:
        digests = {}
        for name in (f"{module}-{version}" for module in MODULES for version in versions):
            metadata = {"name": name.rpartition("-")[0], "namespace": names.SKR_NAMESPACE}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"version": name}}
            digests[name] = layers.hold(packed({"module.yaml": dump_yaml(document)}))
        definition = layers.hold(packed({"module.yaml": dump_yaml(definition_of_things())}))
        digests |= {f"{CONFIGURED}-{version}": definition for version in versions}
        file = folder / "layers.json"
        file.write_text(json.dumps({"registry": f"http://{layers.host}/modules", "digests": digests}))
        yield file


@asynccontextmanager
async def run_fleet(options: argparse.Namespace, layers: Path, *more: str) -> AsyncIterator[FleetProcess]:
    """Run the process with the simulated clusters."""
    given = (f"--kymas={options.kymas}", f"--modules={options.modules}", f"--layers={layers}", *more)
    async with run_controlled("simulated_fleet", *given) as fleet:
        yield fleet


@asynccontextmanager
async def open_fleet(options: argparse.Namespace, *more: str) -> AsyncIterator[tuple[FleetProcess, Path, Path]]:
    """Run simulated clusters with the layers of modules; yield them, the file of KCP's kubeconfig, and its folder."""
    with TemporaryDirectory(prefix="fleet-") as text:
        folder = Path(text)
        async with serve_layers(folder) as layers, run_fleet(options, layers, *more) as fleet:
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(json.dumps(fleet.kubeconfig))
            yield fleet, kubeconfig, folder


@asynccontextmanager
async def run_controlled(
    program: str, *arguments: str, package: str = "benchmarks.processes"
) -> AsyncIterator[FleetProcess]:
    """Run a program of a package that executes commands on simulated clusters."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        f"{package}.{program}",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    fleet = FleetProcess(process)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(fleet.read())
        try:
            fleet.ready = ready = await fleet.next_answer()
            fleet.kubeconfig, fleet.kubeconfigs = ready["kubeconfig"], ready["kubeconfigs"]
            yield fleet
        finally:
            reading.cancel()
            process.terminate()
            await process.wait()


@asynccontextmanager
async def run_lifecycle_manager(
    kubeconfig: Path,
    port: int,
    folder: Path,
    klm: Sequence[str] = (str(KLM),),
    replica: str = "lifecycle-manager",
    more: Sequence[str] = (),
) -> AsyncIterator[LifecycleManagerProcess]:
    """Run a replica of the Lifecycle Manager, with the event endpoint on a port, and `more` options."""
    metrics_port = free_port()
    command = [
        *klm,
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--kyma-skr-listener-bind-address=127.0.0.1:{port}",
        f"--event-address=127.0.0.1:{port}",
        f"--metrics-bind-address=127.0.0.1:{metrics_port}",
        "--health-probe-bind-address=127.0.0.1:0",
        f"--replica-bind-address=127.0.0.1:{free_port()}",
        f"--replica-name={replica}",
        f"--leader-election-namespace={names.KCP_NAMESPACE}",
        "--allow-unprotected-modules",  # it is an administrator here
        "--allow-insecure-kubeconfigs",
        "--module-upgrade-rollout-max-delay=0s",
        "--max-changed-clusters=100%",  # a new version is measured without waves
        "--watcher-silence=1h",  # no Watchers run in these clusters
        "--watcher-canary-interval=1h",
        "--watcher-canary-timeout=1h",
        "--max-warm-skrs=20000",
        "--k8s-client-qps=100000",
        "--log-level=WARNING",
        *more,
    ]
    child = await start_child(replica, command, folder / f"{replica}.log")
    try:
        yield LifecycleManagerProcess(child, metrics_port)
    finally:
        await child.stop(60)
        if child.returncode != 0:
            print(tail(child.log, 40), file=sys.stderr)


@asynccontextmanager
async def run_replicas(
    kubeconfig: Path,
    folder: Path,
    count: int,
    *,
    first_port: int | None = None,
    klm: str = str(KLM),
    more: Sequence[str] = (),
) -> AsyncIterator[list[LifecycleManagerProcess]]:
    """Run so many replicas beside each other, the first with its event endpoint on a port, and `more` options."""
    async with AsyncExitStack() as stack:
        ports = [first_port or free_port(), *(free_port() for _ in range(count - 1))]
        yield [
            await stack.enter_async_context(
                run_lifecycle_manager(kubeconfig, port, folder, (klm,), f"replica-{number}", more)
            )
            for number, port in enumerate(ports)
        ]


def cpu_of(managers: Iterable[LifecycleManagerProcess]) -> float:
    """Return the CPU time that some processes have used together, in seconds."""
    return sum(manager.cpu_seconds() for manager in managers)


async def wait_for_endpoint(port: int) -> None:
    """Wait until the event endpoint accepts connections."""
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)
            else:
                return writer.close()


async def create_users(
    fleet: FleetProcess, options: argparse.Namespace, port: int, stack: AsyncExitStack
) -> list[User]:
    """Return users of the first clusters, with the keys of their Watchers."""
    return await users_of(range(min(options.users, options.kymas // 2)), fleet, port, stack)


async def users_of(
    kymas: Iterable[int],
    fleet: FleetProcess,
    port: int,
    stack: AsyncExitStack,
    name_of: Callable[[int], str] = kyma_name,
) -> list[User]:
    """Return the users of some clusters, with the keys of their Watchers."""
    kcp = await Client.from_kubeconfig(
        fleet.kubeconfig, options=ClientOptions(qps=0), policy=KubeconfigPolicy.permissive()
    )
    users = []
    async with kcp:
        for kyma in kymas:
            secret = await kcp.get(SECRETS, f"{name_of(kyma)}-webhook-tls", names.KCP_NAMESPACE)
            user = user_of(kyma, secret, port)
            stack.push_async_callback(user.client.aclose)
            users.append(user)
    return users


def user_of(kyma: int, secret: Secret, port: int) -> User:
    """Return the user of a cluster, with the key of its Watcher from the Secret."""
    sender = EventSigner.of(secret.data)
    client = httpx.AsyncClient(verify=sender.tls, timeout=30)
    return User(kyma, client, sender, f"https://127.0.0.1:{port}/v2/lifecycle-manager/event")
