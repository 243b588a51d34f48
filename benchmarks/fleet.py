"""One Lifecycle Manager with a fleet: 10,000 Kymas with 5 modules each, every cluster simulated in another process.

What is measured, in this order: how long a new fleet takes until all of it is in sync; how long a process that is
started anew needs to look at an unchanged fleet, and whether it writes; how much CPU the quiet fleet costs; how soon a
user's change becomes a Manifest, from the write in the cluster, while the fleet is looked at for the first time and
while a tenth of the clusters take connections and never answer; whom a channel's new version wakes.

Run by `python -m benchmarks.fleet [--kymas 10000] [--modules 5]`. It takes about ten minutes with the full fleet.
"""

import argparse
import asyncio
import base64
import json
import os
import ssl
import statistics
import sys
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import uvloop
from cryptography import x509
from cryptography.hazmat.primitives import serialization

from benchmarks.figures import Figure
from benchmarks.simulated.fleet import MODULES, VERSIONS, kyma_name
from certs import describe
from certs.message_signatures import SignatureParameters, algorithm_of, load_signing_key, sign
from kube_runtime import Client, ClientOptions, KubeconfigPolicy, dump_yaml
from lifecycle_manager.resources import SECRETS, Secret
from lifecycle_manager_api import Watched, WatchedGvk, WatchEvent, encode_event, names
from local.ports import free_port
from local.processes import ChildProcess, start_child, tail
from tests.registries import blob_server, packed

PATIENCE_SECONDS = 3_600.0
POLL_SECONDS = 5.0  # each look costs the simulated control plane a list of all Kymas
TICKS = os.sysconf("SC_CLK_TCK")
Answer = dict[str, Any]


def main() -> int:
    """Measure and print the figures; return 1 where a bar was missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kymas", type=int, default=10_000)
    parser.add_argument("--modules", type=int, default=5)
    parser.add_argument("--users", type=int, default=40, help="clusters whose users change something")
    parser.add_argument("--quiet-seconds", type=float, default=60.0)
    figures = uvloop.run(_measure(parser.parse_args()))
    for figure in figures:
        figure.print()
    return 0 if all(figure.met for figure in figures) else 1


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

    def cpu_seconds(self) -> float:
        """Return the CPU time that it has used."""
        fields = Path(f"/proc/{self.child.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS

    def peak_memory(self) -> float:
        """Return the most memory that it has had, in MB."""
        lines = Path(f"/proc/{self.child.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024


async def _measure(options: argparse.Namespace) -> list[Figure]:
    figures: list[Figure] = []
    with TemporaryDirectory(prefix="fleet-") as text:
        folder = Path(text)
        async with AsyncExitStack() as stack:
            layers = await stack.enter_async_context(_layers(folder))
            fleet = await stack.enter_async_context(_fleet(options, layers))
            kubeconfig = folder / "kcp.kubeconfig"
            kubeconfig.write_text(json.dumps(fleet.kubeconfig))
            port = free_port()

            began = time.perf_counter()
            async with _manager(kubeconfig, port, folder) as manager:
                await _in_sync(fleet, manager)
                seconds = time.perf_counter() - began
                await _settled(fleet)
                figures.append(_figure("fleet_start", "s", seconds, "none given", met=True))
                figures.append(_figure("fleet_start_cpu", "s", manager.cpu_seconds(), "none given", met=True))
                users = await _users(fleet, options, port, folder, stack)
                print(f"start: {seconds:.1f} s, {await fleet.do('detail')}", file=sys.stderr)

            before = await fleet.do("begin_round")
            began = time.perf_counter()
            async with _manager(kubeconfig, port, folder) as manager:
                await _listening(port)
                changing = asyncio.create_task(_changes(fleet, users, 4))
                await _looked_at(fleet, options.kymas)
                resync = time.perf_counter() - began
                during = await changing
                after = await fleet.do("counts")
                figures.append(_figure("fleet_resync", "s", resync, "60 s or less", met=resync <= 60))
                figures.append(_figure("fleet_resync_cpu", "s", manager.cpu_seconds(), "none given", met=True))
                writes = (await fleet.do("writes", beyond=len(users)))["writes"]
                print(f"resync: {_difference(before, after)}, {await fleet.do('detail')}", file=sys.stderr)
                figures += await _with_a_quiet_fleet(fleet, manager, users, during, options)
                unchanged = "none to clusters where no user changes anything"
                figures.append(_figure("fleet_resync_writes", "writes", writes, unchanged, met=writes == 0))
            await stack.aclose()
    return figures


async def _with_a_quiet_fleet(
    fleet: FleetProgram, manager: Manager, users: list[User], during: list[float], options: argparse.Namespace
) -> list[Figure]:
    cpu, began = manager.cpu_seconds(), time.perf_counter()
    await asyncio.sleep(options.quiet_seconds)
    share = 100 * (manager.cpu_seconds() - cpu) / (time.perf_counter() - began)
    quiet = await _changes(fleet, users, 10)
    await fleet.do("silence", share=0.1)
    await asyncio.sleep(options.quiet_seconds / 2)
    disturbed = await _changes(fleet, users, 10)
    moved = await _bump(fleet)
    memory = manager.peak_memory()
    for name, milliseconds in (("in resync", during), ("quiet", quiet), ("with silent clusters", disturbed)):
        median, longest = statistics.median(milliseconds), max(milliseconds)
        print(
            f"events {name}: median {median:.1f} ms, p99 {_p99(milliseconds):.1f}, longest {longest:.1f}: "
            f"{' '.join(f'{each:.0f}' for each in milliseconds[:40])}",
            file=sys.stderr,
        )
    return [
        _figure("fleet_quiet_cpu", "% of a core", share, "under 30", met=share < 30),
        _figure("fleet_memory", "MB", memory, "under 2048", met=memory < 2048),
        _figure("event_p99_in_resync", "ms", _p99(during), "under 100", met=_p99(during) < 100),
        _figure("event_p99_quiet", "ms", _p99(quiet), "under 100", met=_p99(quiet) < 100),
        Figure(
            name="event_p99_with_silent_clusters",
            unit="ms",
            value=round(_p99(disturbed), 2),
            peer="the same fleet with every cluster answering",
            peer_value=round(_p99(quiet), 2),
            bar="within a tenth of the peer",
            met=_p99(disturbed) <= 1.1 * _p99(quiet),
        ),
        _figure("bump_seconds", "s", moved, "spread over the rollout's delay, here 0 s", met=True),
    ]


async def _bump(fleet: FleetProgram) -> float:
    """Raise a channel's version, and return the seconds until all that use it have it."""
    began = time.perf_counter()
    await fleet.do("bump", module=MODULES[0], version=VERSIONS[1])
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            said = await fleet.do("at_version", module=MODULES[0], version=VERSIONS[1])
            if said["there"] >= said["of"]:
                return time.perf_counter() - began
            await asyncio.sleep(POLL_SECONDS)


@asynccontextmanager
async def _layers(folder: Path) -> AsyncIterator[Path]:
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
async def _fleet(options: argparse.Namespace, layers: Path) -> AsyncIterator[FleetProgram]:
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
async def _manager(kubeconfig: Path, port: int, folder: Path) -> AsyncIterator[Manager]:
    command = [
        str(Path(sys.executable).with_name("klm")),
        "run",
        f"--kubeconfig={kubeconfig}",
        f"--kyma-skr-listener-bind-address=127.0.0.1:{port}",
        f"--event-address=127.0.0.1:{port}",
        "--metrics-bind-address=127.0.0.1:0",
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
        yield Manager(child)
    finally:
        await child.stop(60)
        if child.returncode != 0:
            print(tail(child.log, 40), file=sys.stderr)


async def _in_sync(fleet: FleetProgram, manager: Manager) -> None:
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            said = await fleet.do("in_sync")
            if said["in_sync"] >= said["of"]:
                return
            if manager.child.returncode is not None:
                raise RuntimeError(f"the Lifecycle Manager ended:\n{tail(manager.child.log, 40)}")
            print(said, round(manager.cpu_seconds(), 1), "s CPU", file=sys.stderr)
            await asyncio.sleep(POLL_SECONDS)


async def _settled(fleet: FleetProgram) -> None:
    """Wait until nothing was written for some seconds: what is still to be told of the start is no change later."""
    before, now = -1, 0
    async with asyncio.timeout(PATIENCE_SECONDS):
        while now != before:
            await asyncio.sleep(POLL_SECONDS)
            counts = await fleet.do("counts")
            before, now = now, counts["skr_writes"]  # the control plane holds a Lease that is renewed


async def _listening(port: int) -> None:
    """Wait until events are taken."""
    async with asyncio.timeout(120):
        while True:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except ConnectionError:
                await asyncio.sleep(0.05)
            else:
                return writer.close()


async def _looked_at(fleet: FleetProgram, kymas: int) -> None:
    """Wait until the Kyma of every cluster was looked at in this round."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while True:
            if (await fleet.do("counts"))["looked_at"] >= kymas:
                return
            await asyncio.sleep(0.2)


async def _users(
    fleet: FleetProgram, options: argparse.Namespace, port: int, folder: Path, stack: AsyncExitStack
) -> list[User]:
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


async def _changes(fleet: FleetProgram, users: list[User], rounds: int) -> list[float]:
    """Have users change their Kymas, some a second; return the milliseconds until each Manifest was written."""
    seconds: list[float] = []
    for _ in range(rounds):
        for user in users:
            applied = fleet.await_manifest(user.kyma, MODULES[-1])
            edited = await fleet.do("edit", kyma=user.kyma, module=MODULES[-1], wanted=True)
            await _told(user, edited)
            async with asyncio.timeout(120):
                seconds.append(await applied - edited["at"])
            removed = await fleet.do("edit", kyma=user.kyma, module=MODULES[-1], wanted=False)
            await _told(user, removed)
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.5)
    return [1000 * each for each in seconds]


async def _told(user: User, edited: Answer) -> None:
    """Send an event as often as it takes, as a Watcher does: the process may only be starting."""
    async with asyncio.timeout(120):
        while True:
            try:
                return await user.tell(edited)
            except (httpx.TransportError, httpx.HTTPStatusError):
                await asyncio.sleep(0.1)


def _p99(milliseconds: list[float]) -> float:
    return statistics.quantiles(milliseconds, n=100, method="inclusive")[98]


def _difference(before: Answer, after: Answer) -> Answer:
    return {name: after[name] - before.get(name, 0) for name in after}


def _figure(name: str, unit: str, value: float, bar: str, *, met: bool) -> Figure:
    return Figure(name=name, unit=unit, value=round(value, 2), peer="", peer_value=0, bar=bar, met=met)


if __name__ == "__main__":
    sys.exit(main())
