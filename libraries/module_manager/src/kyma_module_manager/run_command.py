"""The command `run`, of `kyma-module-manager` and of `klm module`."""

import socket
from pathlib import Path
from typing import Annotated

import typer


def run(
    target: Annotated[str, typer.Argument(help="The manager, as package.module:object.")],
    *,
    kubeconfig: Annotated[
        Path | None, typer.Option(help="Access to the control plane; in a Pod, its ServiceAccount.")
    ] = None,
    namespace: Annotated[
        str, typer.Option(envvar="MODULE_MANAGER_NAMESPACE", help="Namespace of the ModuleConfigs.")
    ] = "kcp-system",
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
    log_level: Annotated[
        str, typer.Option(envvar="MODULE_MANAGER_LOG_LEVEL", help="The least level that is logged.")
    ] = "info",
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
            help="Share of changes whose traces are sent.",
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
    from kyma_diagnostics.logs import configure_logs
    from kyma_diagnostics.tracing import TracingOptions, TracingUnavailable, endpoint_of, tracing
    from kyma_module_manager.running import run_manager
    from kyma_module_manager.service import ServiceOptions

    try:
        endpoint = endpoint_of(otlp_endpoint)
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
    configure_logs(log_level)
    traces = TracingOptions("module-manager", endpoint, trace_sampling_ratio, instance=identity)
    try:
        with tracing(traces) as tracer:
            code = run_manager(target, kubeconfig, options, once=once, tracer=tracer)
    except TracingUnavailable as error:
        raise typer.BadParameter(str(error), param_hint="--otlp-endpoint") from None
    raise typer.Exit(code)
