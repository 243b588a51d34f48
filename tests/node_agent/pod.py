"""Runs one Pod: its volumes as folders, its container as a process that is probed, restarted and reported."""

import asyncio
import base64
import os
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import httpx
import msgspec

from kube_runtime import (
    Client,
    ClusterUnreachable,
    Conflict,
    NotFound,
    ServerUnavailable,
    TooManyRequests,
    dump_yaml,
)
from kyma_fleet.identities import SERVICE_ACCOUNTS
from kyma_local.cluster import LocalCluster
from kyma_local.ports import free_port
from kyma_local.private_files import write_private
from kyma_local.processes import ChildProcess, start_child
from tests.kinds import CONFIG_MAPS, PODS, SECRETS
from tests.node_agent.containers import ACCOUNT, Process, process_of
from tests.node_agent.environment import NODE, POD_IP, JsonObject

POLL_SECONDS = 0.1
PROBE_INTERVAL_SECONDS = 0.5
"""Between probes of what is ready: each costs the program and its probe some milliseconds."""
# A process that stalls with its machine is slow, but ready; one that has ended refuses at once.
PROBE_SECONDS = 10.0
T = TypeVar("T")


@dataclass(eq=False)
class PodRun:
    """Runs a Pod until `stopping` is set, then removes it. `changed` is called when its readiness changes.

    `versions` maps tags of images to folders of programs.
    """

    cluster: LocalCluster
    client: Client
    folder: Path
    pod: JsonObject
    changed: Callable[[], None]
    versions: Mapping[str, Path]
    stopping: asyncio.Event = field(default_factory=asyncio.Event)
    process: Process | None = None
    ready: bool = False
    restarts: int = 0
    child: ChildProcess | None = None

    @property
    def name(self) -> str:
        return str(self.pod["metadata"]["name"])

    @property
    def namespace(self) -> str:
        return str(self.pod["metadata"]["namespace"])

    @property
    def log(self) -> Path:
        return self.folder / "log"

    async def lose(self) -> None:
        """End it as the loss of its node does: killed without notice, and not started again."""
        self.stopping.set()
        if self.child is not None:
            await self.child.kill()

    async def run(self) -> None:
        """Run the Pod. The process never outlives this call."""
        self.folder.mkdir(parents=True)
        try:
            await self._bind()
            mounts = await self._mount()
            if mounts is not None:
                self.process = process_of(self.pod, mounts, free_port, self.versions)
                while not self.stopping.is_set():
                    await self._run_container(self.process, mounts)
        except NotFound:
            pass  # the Pod was removed while it was being prepared
        finally:
            self.ready = False
            self.changed()
            if self.child is not None:
                await self.child.stop(self.pod["spec"].get("terminationGracePeriodSeconds", 30))
        await self._remove()

    async def _bind(self) -> None:
        binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": self.name}}
        target = {"target": {"apiVersion": "v1", "kind": "Node", "name": NODE}}
        bind = partial(self.client.create_subresource, PODS, self.name, self.namespace, "binding", binding | target)
        with suppress(Conflict):  # bound by an attempt whose answer was lost, or being deleted
            await _answered(bind)

    async def _run_container(self, process: Process, mounts: dict[str, Path]) -> None:
        environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.folder),
            "KUBERNETES_SERVICE_HOST": "127.0.0.1",
            "KUBERNETES_SERVICE_PORT": str(self.cluster.port),
            **process.environment,
        }
        if ACCOUNT in mounts:
            environment["KUBECONFIG"] = str(mounts[ACCOUNT] / "kubeconfig")
        self.child = await start_child(self.name, process.command, self.log, environment)
        await self._report()
        await self._probe_until_over(process, self.child)
        if self.child.returncode is None and not self.stopping.is_set():
            await self.child.kill()  # the liveness probe failed
        if not self.stopping.is_set():
            self.restarts += 1
            self._set_ready(False)
            await self._report()
            await self._pause()

    async def _probe_until_over(self, process: Process, child: ChildProcess) -> None:
        """Probe until the container has ended, is to be stopped, or its liveness probe has failed."""
        (container,) = self.pod["spec"]["containers"]
        liveness, readiness = container.get("livenessProbe"), container.get("readinessProbe")
        failures, probed_at = 0, time.monotonic()
        async with httpx.AsyncClient(timeout=PROBE_SECONDS, trust_env=False) as client:
            while child.returncode is None and not self.stopping.is_set():
                now_ready = readiness is None or await _succeeds(client, readiness, process)
                if now_ready != self.ready:
                    self._set_ready(now_ready)
                    await self._report()
                if liveness is not None and time.monotonic() - probed_at >= liveness.get("periodSeconds", 10):
                    probed_at = time.monotonic()
                    failures = 0 if await _succeeds(client, liveness, process) else failures + 1
                    if failures >= liveness.get("failureThreshold", 3):
                        return
                await self._pause(PROBE_INTERVAL_SECONDS if self.ready else POLL_SECONDS)

    async def _pause(self, seconds: float = POLL_SECONDS) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self.stopping.wait()
        except TimeoutError:
            pass

    def _set_ready(self, ready: bool) -> None:
        self.ready = ready
        self.changed()

    async def _report(self) -> None:
        """Write the Pod's status, as a kubelet does."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        (container,) = self.pod["spec"]["containers"]
        ready = "True" if self.ready else "False"
        conditions = {"PodScheduled": "True", "Initialized": "True", "ContainersReady": ready, "Ready": ready}
        status = {
            "phase": "Running",
            "hostIP": POD_IP,
            "hostIPs": [{"ip": POD_IP}],
            "podIP": POD_IP,
            "podIPs": [{"ip": POD_IP}],
            "startTime": now,
            "conditions": [
                {"type": type_, "status": value, "lastTransitionTime": now} for type_, value in conditions.items()
            ],
            "containerStatuses": [
                {
                    "name": container["name"],
                    "image": container["image"],
                    "imageID": "",
                    "ready": self.ready,
                    "started": True,
                    "restartCount": self.restarts,
                    "state": {"running": {"startedAt": now}},
                }
            ],
        }
        patch = {"status": status}
        await _answered(lambda: self.client.merge_patch(PODS, self.name, patch, self.namespace, subresource="status"))

    async def _remove(self) -> None:
        """Remove the Pod from the API server, as a kubelet does when nothing of it is left on the node."""
        options: JsonObject = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
        options["preconditions"] = {"uid": self.pod["metadata"]["uid"]}
        try:
            target, body = PODS.path(self.namespace, self.name), msgspec.json.encode(options)
            await _answered(lambda: self.client.raw("DELETE", target, body=body))
        except (NotFound, Conflict):
            pass

    async def _mount(self) -> dict[str, Path] | None:
        """Return the folders of the volumes by their paths in the container; None if the Pod is stopped before."""
        (container,) = self.pod["spec"]["containers"]
        paths = {mount["name"]: mount["mountPath"] for mount in container.get("volumeMounts", ())}
        mounts = {}
        for volume in self.pod["spec"].get("volumes", ()):
            folder = self.folder / volume["name"]
            folder.mkdir(mode=0o700)
            while not await _answered(partial(self._fill, folder, volume)):
                if self.stopping.is_set():
                    return None
                await self._pause()
            mounts[paths.get(volume["name"], volume["name"])] = folder
        return mounts

    async def _fill(self, folder: Path, volume: JsonObject) -> bool:
        """Write the content of a volume to its folder; tell whether its source exists."""
        try:
            if "secret" in volume:
                found = await self.client.get(SECRETS, volume["secret"]["secretName"], self.namespace)
                contents = {key: base64.b64decode(text).decode() for key, text in found.get("data", {}).items()}
            elif "configMap" in volume:
                found = await self.client.get(CONFIG_MAPS, volume["configMap"]["name"], self.namespace)
                contents = found.get("data", {})
            elif "projected" in volume:
                contents = await self._account(folder)
            else:
                contents = {}
        except NotFound:
            return False
        for key, text in contents.items():
            write_private(folder / key, text)
        return True

    async def _account(self, folder: Path) -> dict[str, str]:
        """Return the files of a Pod's ServiceAccount, and a kubeconfig with their paths on this machine."""
        account = self.pod["spec"]["serviceAccountName"]
        request = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": 3600},
        }
        issued = await self.client.create_subresource(SERVICE_ACCOUNTS, account, self.namespace, "token", request)
        cluster = {"server": self.cluster.server, "certificate-authority": str(folder / "ca.crt")}
        kubeconfig: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "contexts": [{"name": "pod", "context": {"cluster": "own", "user": account}}],
            "clusters": [{"name": "own", "cluster": cluster}],
            "users": [{"name": account, "user": {"tokenFile": str(folder / "token")}}],
        }
        return {
            "token": issued["status"]["token"],
            "ca.crt": self.cluster.ca.certificate_pem.decode(),
            "namespace": self.namespace,
            "kubeconfig": dump_yaml(kubeconfig),
        }


async def _answered(ask: Callable[[], Awaitable[T]]) -> T:
    """Repeat a request until the API server has answered, as a kubelet does."""
    while True:
        try:
            return await ask()
        except (ClusterUnreachable, ServerUnavailable, TooManyRequests):
            await asyncio.sleep(POLL_SECONDS)


async def _succeeds(client: httpx.AsyncClient, probe: JsonObject, process: Process) -> bool:
    target = probe["httpGet"]
    try:
        answer = await client.get(f"http://127.0.0.1:{process.port(target['port'])}{target['path']}")
    except httpx.HTTPError:
        return False
    return answer.is_success
