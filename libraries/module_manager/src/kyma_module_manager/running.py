"""Runs a manager for the command line, and prints what stops it as one line."""

import sys
from pathlib import Path

import typer
import uvloop

from kube_runtime import AddressUnusable, Client, ClientOptions, KubeError
from kube_runtime.running import until_signal
from kube_runtime.tracing import Tracer
from kyma_diagnostics.debug_server import DebugSocketUnusable
from kyma_module_manager.exceptions import ModuleManagerError
from kyma_module_manager.loading import load_manager
from kyma_module_manager.metrics import ManagerMetrics
from kyma_module_manager.service import ManagerService, ServiceOptions

# Limit for one manager; the API server has its own fairness among clients.
QPS = 1000


def run_manager(
    target: str, kubeconfig: Path | None, options: ServiceOptions, *, once: bool, tracer: Tracer | None
) -> int:
    """Run a manager until it is stopped, or once for all ModuleConfigs; return the exit code."""
    try:
        return uvloop.run(_run(target, kubeconfig, options, once=once, tracer=tracer))
    except (AddressUnusable, DebugSocketUnusable, KubeError, ModuleManagerError) as error:
        typer.echo(f"error: {error}", err=True)
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
                typer.echo(f"failed: {name}", err=True)
            return 1 if failed else 0
        await service.run(until_signal())
    return 0


def _echo(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
