"""The command line of the SDK: `kyma-module-manager run package.module:object`."""

import asyncio
import signal
import socket
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import typer
import uvloop

from kube_runtime import Client, ClientOptions, KubeError
from kube_runtime.tracing import Tracer
from kyma_diagnostics import TracingOptions, TracingUnavailable, tracing
from kyma_diagnostics.debug_server import DebugSocketUnusable
from kyma_diagnostics.tracing import endpoint_of
from kyma_module_manager.exceptions import ModuleManagerError
from kyma_module_manager.loading import load_manager
from kyma_module_manager.logs import configure_logs
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.project.commands import app as module_app
from kyma_module_manager.service import ManagerService, ServiceOptions
from lifecycle_manager_api import names

__all__ = ["app", "main"]

# Limit for one manager; the API server has its own fairness among clients.
QPS = 1000

app = typer.Typer(
    name="kyma-module-manager",
    help="Run a Module Manager: a function from a Module CR to Kubernetes objects.",
    no_args_is_help=True,
)
app.add_typer(module_app)


@app.command()
def run(
    target: Annotated[str, typer.Argument(help="The manager, as package.module:object.")],
    *,
    kubeconfig: Annotated[
        Path | None,
        typer.Option(envvar="KUBECONFIG", help="Access to the control plane; in a Pod, its ServiceAccount."),
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar="MODULE_MANAGER_NAMESPACE", help="Namespace of the ModuleConfigs.")
    ] = names.KCP_NAMESPACE,
    once: Annotated[bool, typer.Option("--once", help="Reconcile all ModuleConfigs once, then exit.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print the objects instead of writing them.")] = False,
    health_address: Annotated[
        str,
        typer.Option(
            envvar="MODULE_MANAGER_HEALTH_ADDRESS",
            help="host:port of /healthz, /readyz and /metrics; port 0 for any free port.",
        ),
    ] = ":8080",
    concurrency: Annotated[
        int,
        typer.Option(envvar="MODULE_MANAGER_CONCURRENCY", min=1, help="ModuleConfigs reconciled at a time."),
    ] = 10,
    leader_elect: Annotated[
        bool,
        typer.Option(
            "--leader-elect/--no-leader-elect",
            envvar="MODULE_MANAGER_LEADER_ELECT",
            help="Run several replicas, of which one is active, by a Lease.",
        ),
    ] = False,
    leader_election_namespace: Annotated[
        str,
        typer.Option(
            envvar="MODULE_MANAGER_LEADER_ELECTION_NAMESPACE",
            help="Namespace of the Leases, in which no other module may write.",
            show_default="module-manager-MODULE-leases",
        ),
    ] = "",
    identity: Annotated[
        str,
        typer.Option(
            envvar="POD_NAME",
            default_factory=socket.gethostname,
            show_default="the host name",
            help="Identity of this replica in the Lease; in a cluster, the name of the Pod.",
        ),
    ],
    log_level: Annotated[str, typer.Option(envvar="MODULE_MANAGER_LOG_LEVEL")] = "info",
    otlp_endpoint: Annotated[
        str,
        typer.Option(
            envvar="MODULE_MANAGER_OTLP_ENDPOINT",
            help="URL of an OpenTelemetry collector, such as http://collector:4318, for traces of changes by "
            "OTLP/HTTP; needs the extra `tracing`.",
            show_default="no traces",
        ),
    ] = "",
    trace_sampling_ratio: Annotated[
        float,
        typer.Option(
            envvar="MODULE_MANAGER_TRACE_SAMPLING_RATIO",
            min=0,
            max=1,
            help="Share of changes whose traces are sent; failed and slow ones are sent in any case.",
        ),
    ] = 0.01,
    debug_socket: Annotated[
        Path | None,
        typer.Option(
            envvar="MODULE_MANAGER_DEBUG_SOCKET",
            help="Unix socket at which `python -m kyma_diagnostics` asks this process.",
            show_default="none",
        ),
    ] = None,
) -> None:
    """Run a manager against a control plane until SIGTERM or Ctrl-C."""
    configure_logs(log_level)
    try:
        otlp_endpoint = endpoint_of(otlp_endpoint)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from None
    host, _, port = health_address.rpartition(":")
    if not port.isdecimal():
        raise typer.BadParameter(
            f"invalid address {health_address!r}: expected host:port", param_hint="--health-address"
        )
    options = ServiceOptions(
        namespace=namespace,
        health_host=host,
        health_port=int(port),
        concurrency=concurrency,
        dry_run=dry_run,
        leader_elect=leader_elect and not once,
        lease_namespace=leader_election_namespace,
        identity=identity,
        debug_socket=debug_socket,
    )
    traces = TracingOptions("module-manager", otlp_endpoint, trace_sampling_ratio, instance=identity)
    try:
        with tracing(traces) as tracer:
            code = _run_to_exit_code(_run(target, kubeconfig, options, once=once, tracer=tracer))
    except TracingUnavailable as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from None
    raise typer.Exit(code)


def main() -> None:
    """Entry point of the `kyma-module-manager` command."""
    app()


def _run_to_exit_code(work: Coroutine[Any, Any, int]) -> int:
    try:
        return uvloop.run(work)
    except (ModuleManagerError, KubeError, DebugSocketUnusable) as error:
        typer.secho(f"error: {error}", fg=typer.colors.RED, err=True)
        return 2


async def _run(
    target: str, kubeconfig: Path | None, options: ServiceOptions, *, once: bool, tracer: Tracer | None
) -> int:
    manager = load_manager(target)
    metrics = ManagerMetrics(manager.module)
    client_options = ClientOptions(
        qps=QPS, burst=2 * QPS, user_agent=f"kyma-module-manager/{manager.module}", metrics=metrics.runtime
    )
    async with await Client.from_environment(kubeconfig, options=client_options) as client:
        service = ManagerService(manager, client, options, metrics=metrics, tracer=tracer, echo=_echo)
        if once:
            failed = await service.run_once()
            for name in failed:
                typer.secho(f"failed: {name}", fg=typer.colors.RED, err=True)
            return 1 if failed else 0
        await service.run(_stop_on_signal())
    return 0


def _stop_on_signal() -> asyncio.Event:
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    return stop


def _echo(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
