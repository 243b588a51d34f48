"""Who plays in the benchmark of a fleet: the process with the clusters, the Lifecycle Manager, and users."""

import argparse
import asyncio
import base64
import json
import os
import ssl
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from benchmarks.simulated.fleet import MODULES, VERSIONS, kyma_name
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, dump_yaml
from kyma_certs import describe
from kyma_certs.message_signatures import SignatureParameters, algorithm_of, load_signing_key, sign
from kyma_local.ports import free_port
from kyma_local.processes import ChildProcess, start_child, tail
from lifecycle_manager.resources import SECRETS, Secret
from lifecycle_manager_api import Watched, WatchedGvk, WatchEvent, encode_event, names
from tests.registries import blob_server, packed

PATIENCE_SECONDS = 3_600.0
TICKS = os.sysconf("SC_CLK_TCK")
Answer = dict[str, Any]


@dataclass(eq=False)
class FleetProgram:
    """The process that plays the clusters."""

    process: asyncio.subprocess.Process
    kubeconfig: Mapping[str, Any] = field(default_factory=dict)
    _answers: asyncio.Queue[Answer] = field(default_factory=asyncio.Queue)
    _applied: dict[tuple[str, str], asyncio.Future[float]] = field(default_factory=dict)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def read(self) -> None:
        """Follow what it says."""
        assert self.process.stdout is not None
        while line := await self.process.stdout.readline():
            said = json.loads(line)
            if "applied" in said:
                self._applied.pop((said["applied"][0], said["applied"][1])).set_result(said["at"])
            else:
                self._answers.put_nowait(said)

    async def heard(self) -> Answer:
        """Return what it says next."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            return await self._answers.get()

    async def do(self, what: str, **arguments: Any) -> Answer:
        """Have it do something, and return its answer."""
        assert self.process.stdin is not None
        async with self._turn:
            self.process.stdin.write(json.dumps({"do": what, **arguments}).encode() + b"\n")
            return await self.heard()

    def await_manifest(self, kyma: int, module: str) -> asyncio.Future[float]:
        """Return what gets the time at which a Manifest is written."""
        self._applied[kyma_name(kyma), module] = told = asyncio.get_running_loop().create_future()
        return told


@dataclass(eq=False)
class User:
    """Who changes a Kyma in one cluster, and the Watcher there, which tells of it."""

    kyma: int
    client: httpx.AsyncClient
    key: Any
    keyid: str
    certificate: str
    url: str
    sent: int = 0

    async def tell(self, edited: Answer) -> None:
        """Send the signed event of a change."""
        event = WatchEvent(
            watched=Watched(namespace=names.SKR_NAMESPACE, name=names.DEFAULT_KYMA_NAME),
            watched_gvk=WatchedGvk(group=names.GROUP, version="v1beta2", kind="Kyma"),
            operation="UPDATE",
            uid=edited["uid"],
            resource_version=edited["version"],
        )
        body, now = encode_event(event), int(time.time())
        self.sent += 1
        nonce = f"benchmark-{self.kyma}-{time.monotonic_ns()}"
        parameters = SignatureParameters(now, now + 60, nonce, self.keyid, algorithm_of(self.key))
        headers = {**sign(self.url, body, self.key, parameters), "Client-Cert": self.certificate}
        response = await self.client.post(self.url, content=body, headers=headers)
        response.raise_for_status()


@dataclass(eq=False)
class Manager:
    """A running Lifecycle Manager."""

    child: ChildProcess
    metrics_port: int

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    async def has_nothing_left(self) -> None:
        """Wait until no key waits in any queue but for its time."""
        async with asyncio.timeout(PATIENCE_SECONDS), httpx.AsyncClient(timeout=30) as client:
            while True:
                text = (await client.get(f"http://127.0.0.1:{self.metrics_port}/metrics")).text
                lines = [line for line in text.splitlines() if line.startswith("workqueue_depth{")]
                if lines and not any(float(line.rpartition(" ")[2]) for line in lines):
                    return
                await asyncio.sleep(1)

    def peak_memory(self) -> float:
        """Return the most memory that it has had, in MB."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


@asynccontextmanager
async def module_layers(folder: Path) -> AsyncIterator[Path]:
    """Serve the modules' objects, a ConfigMap each; give the file that says where."""
    async with blob_server() as layers:
        digests = {}
        for name in (f"{module}-{version}" for module in MODULES for version in VERSIONS):
            metadata = {"name": name.rpartition("-")[0], "namespace": names.SKR_NAMESPACE}
            document = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"version": name}}
            digests[name] = layers.hold(packed({"module.yaml": dump_yaml(document)}))
        file = folder / "layers.json"
        file.write_text(json.dumps({"registry": f"http://{layers.host}/modules", "digests": digests}))
        yield file


@asynccontextmanager
async def fleet_program(options: argparse.Namespace, layers: Path) -> AsyncIterator[FleetProgram]:
    """Run the process with the clusters."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "benchmarks.simulated.fleet",
        f"--kymas={options.kymas}",
        f"--modules={options.modules}",
        f"--layers={layers}",
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
    )
    program = FleetProgram(process)
    async with asyncio.TaskGroup() as tasks:
        reading = tasks.create_task(program.read())
        try:
            program.kubeconfig = (await program.heard())["kubeconfig"]
            yield program
        finally:
            reading.cancel()
            process.terminate()
            await process.wait()


@asynccontextmanager
async def running_manager(kubeconfig: Path, port: int, folder: Path) -> AsyncIterator[Manager]:
    """Run the Lifecycle Manager of that control plane; events come to a port."""
    metrics_port = free_port()
    command = [
        str(Path(sys.executable).with_name("klm")),
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--kyma-skr-listener-bind-address=127.0.0.1:{port}",
        f"--event-address=127.0.0.1:{port}",
        f"--metrics-bind-address=127.0.0.1:{metrics_port}",
        "--health-probe-bind-address=127.0.0.1:0",
        f"--replica-bind-address=127.0.0.1:{free_port()}",
        "--replica-name=lifecycle-manager",
        "--allow-insecure-kubeconfigs",
        "--module-upgrade-rollout-max-delay=0s",
        "--watcher-silence=1h",  # no Watchers run in these clusters
        "--watcher-canary-interval=1h",
        "--watcher-canary-patience=1h",
        "--max-warm-skrs=20000",
        "--k8s-client-qps=100000",
        "--log-level=WARNING",
    ]
    child = await start_child("lifecycle-manager", command, folder / "lifecycle-manager.log")
    try:
        yield Manager(child, metrics_port)
    finally:
        await child.stop(60)
        if child.returncode != 0:
            print(tail(child.log, 40), file=sys.stderr)


async def listening(port: int) -> None:
    """Wait until events are taken."""
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)
            else:
                return writer.close()


async def users_of(
    fleet: FleetProgram, options: argparse.Namespace, port: int, folder: Path, stack: AsyncExitStack
) -> list[User]:
    """Return users of the first clusters, with what their Watchers have to sign with."""
    kcp = await Client.from_kubeconfig(
        fleet.kubeconfig, options=ClientOptions(qps=0), policy=KubeconfigPolicy.permissive()
    )
    users = []
    async with kcp:
        for kyma in range(min(options.users, options.kymas // 2)):
            secret = await kcp.get(SECRETS, f"{kyma_name(kyma)}-webhook-tls", names.KCP_NAMESPACE)
            user = _user(kyma, secret, port, folder)
            stack.push_async_callback(user.client.aclose)
            users.append(user)
    return users


def _user(kyma: int, secret: Secret, port: int, folder: Path) -> User:
    files = {name: folder / f"{kyma}-{name}" for name in ("tls.crt", "tls.key", "ca.crt")}
    content = {name: base64.b64decode(secret.data[name]) for name in files}
    for name, path in files.items():
        path.write_bytes(content[name])
    context = ssl.create_default_context(cafile=str(files["ca.crt"]))
    context.load_cert_chain(files["tls.crt"], files["tls.key"])
    der = x509.load_pem_x509_certificate(content["tls.crt"]).public_bytes(serialization.Encoding.DER)
    return User(
        kyma,
        httpx.AsyncClient(verify=context, timeout=30),
        load_signing_key(content["tls.key"]),
        describe(content["tls.crt"]).sha256,
        f":{base64.b64encode(der).decode()}:",
        f"https://127.0.0.1:{port}/v2/lifecycle-manager/event",
    )
