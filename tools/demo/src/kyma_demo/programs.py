"""The programs of the demo: Lifecycle Manager, Module Manager and Watcher, started in the order of a real cluster."""

import base64
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path

from kube_runtime import NotFound
from kyma_demo import names, processes
from kyma_demo.environment import Environment, prepare_kcp, prepare_skr
from kyma_local.egress import Route, add_route
from kyma_local.kubectl import kubectl_command
from kyma_local.ports import free_port
from kyma_local.private_files import write_private
from kyma_local.processes import ChildProcess, tail
from kyma_local.starting import has_ended
from kyma_local.waiting import eventually
from lifecycle_manager.contract.resources import SECRETS, Secret

TLS_SECRET = "skr-webhook-tls"  # noqa: S105 - a name


@dataclass(eq=False)
class Programs:
    """The programs of the demo; `stack` stops them."""

    environment: Environment
    stack: AsyncExitStack
    manager_kubeconfig: Path = Path()
    module_kubeconfig: Path = Path()
    skr_access: str = ""
    event_port: int = field(default_factory=free_port)
    webhook_port: int = field(default_factory=free_port)
    admission_port: int = field(default_factory=free_port)
    page_port: int = field(default_factory=free_port)
    running: dict[str, ChildProcess] = field(default_factory=dict)
    started: dict[str, processes.Program] = field(default_factory=dict)

    async def prepare(self) -> None:
        """Prepare the control plane for the Lifecycle Manager and the Module Manager."""
        self.manager_kubeconfig, self.module_kubeconfig = await prepare_kcp(self.environment)

    async def prepare_user_cluster(self) -> None:
        """Prepare the user cluster, and keep what the Lifecycle Manager needs to reach it."""
        self.skr_access = await prepare_skr(self.environment)

    async def start_control_plane(self) -> None:
        """Start the Lifecycle Manager and the Module Manager, and wait until both are ready."""
        kcp_routes = self.environment.kcp_routes
        await self.start(
            processes.lifecycle_manager(
                self.manager_kubeconfig,
                self.event_port,
                by_interval=self.environment.skr_routes is None,
                admission_port=None if kcp_routes is None else self.admission_port,
                page_port=self.page_port,
            )
        )
        if kcp_routes is not None:
            route = Route(names.KCP_NAMESPACE, "lifecycle-manager-webhook", 443, "127.0.0.1", self.admission_port)
            add_route(kcp_routes, route)
        await self.start(processes.module_manager(self.module_kubeconfig))
        await self._wait_for_log("lifecycle-manager", '"msg":"ready"')
        await self._wait_for_log("module-manager", "watching")

    async def start_watcher(self) -> None:
        """Start the Watcher when its Secret is in the SKR, and route its Service to it.

        This replaces the kubelet: the Secret is mounted as files, and the Service is routed to the process.
        """
        mount = self.environment.directory / "skr-webhook-tls"
        await eventually(lambda: self._mount_secret(mount))
        await self.start(processes.skr_watcher(mount, self.webhook_port, self.event_port))
        if self.environment.skr_routes is not None:
            route = Route(names.SKR_NAMESPACE, "skr-webhook", 443, "127.0.0.1", self.webhook_port)
            add_route(self.environment.skr_routes, route)

    async def stop(self, name: str) -> None:
        """Stop a program with SIGTERM, as its Deployment would, and wait for its end."""
        await self.running[name].stop()

    async def kill(self, name: str) -> None:
        """Kill a program with SIGKILL."""
        await self.running[name].kill()

    async def restart(self, name: str) -> None:
        """Start a program again that was stopped or killed."""
        await self.start(self.started[name])

    async def collect_logs(self) -> None:
        """Do nothing: the programs write into the folder of logs."""

    def next_commands(self) -> str:
        """Return what can be tried with the programs, for a console."""
        in_kcp = kubectl_command(self.environment.kcp_kubeconfig)
        return (
            f"The fleet page is at [bold]http://127.0.0.1:{self.page_port}[/], with the token of\n"
            f"  [bold]{in_kcp} -n kcp-system create token lifecycle-manager[/]\n"
        )

    async def ended(self) -> str:
        """Return which programs have ended, with the end of their logs; empty while all run."""
        ended = [
            f"\n{name} has ended; the end of its log:\n{tail(self._log(name))}"
            for name, process in self.running.items()
            if process.returncode is not None
        ]
        return "".join(ended)

    async def start(self, program: processes.Program) -> None:
        """Start a program, in place of one of that name that runs; `stack` stops those first that were added last.

        So the Watcher ends before the Lifecycle Manager, to which it delivers what is pending.
        """
        is_new = program.name not in self.running
        if not is_new:
            await self.stop(program.name)
        self.started[program.name] = program
        process = await processes.start(program, self.environment.logs)
        self.running[program.name] = process
        if is_new:
            self.stack.push_async_callback(self.stop, program.name)

    async def _wait_for_log(self, name: str, text: str) -> None:
        """Wait until a program's log contains a text. Raises StartFailed if it ends before."""

        async def logged() -> bool:
            if self.running[name].returncode is not None:
                raise has_ended(self.running[name])
            return text in self._log(name).read_text(errors="replace")

        await eventually(logged)

    async def _mount_secret(self, mount: Path) -> bool:
        try:
            secret = await self.environment.skr.get(SECRETS, TLS_SECRET, names.SKR_NAMESPACE)
        except NotFound:
            return False
        project(secret, mount)
        return True

    def _log(self, name: str) -> Path:
        return self.environment.logs / f"{name}.log"


def project(secret: Secret, mount: Path) -> None:
    """Write the data of a Secret to files, as the kubelet does for a Pod."""
    mount.mkdir(mode=0o700, exist_ok=True)
    for name, content in secret.data.items():
        write_private(mount / name, base64.b64decode(content).decode())
