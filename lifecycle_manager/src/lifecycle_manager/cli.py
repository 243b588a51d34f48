"""The command `klm`: everything on the control-plane side, and for people. Each command imports what it needs late."""

import asyncio
import sys
from importlib.metadata import entry_points, version
from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer(
    name="klm",
    help="Lifecycle Manager for Kyma: keeps the modules of user clusters as their users want them.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,  # a service logs plain tracebacks, and locals may hold credentials
)


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"klm {version('kyma-lifecycle-manager')}")
        raise typer.Exit


@app.callback()
def options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="print the version and exit")
    ] = False,
) -> None:
    """Hold the options of `klm` itself."""


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True}, add_help_option=False)
def run(context: typer.Context) -> None:
    """Run the Lifecycle Manager (`klm run --help` lists its options)."""
    import structlog  # noqa: PLC0415
    import uvloop  # noqa: PLC0415 - a command pays only for its own imports
    from pydantic import ValidationError  # noqa: PLC0415

    from kube_runtime import KubeconfigInvalid  # noqa: PLC0415
    from kyma_diagnostics import TracingUnavailable, tracing  # noqa: PLC0415
    from kyma_diagnostics.debug_server import DebugSocketUnusable  # noqa: PLC0415
    from lifecycle_manager.app import run as run_lifecycle_manager  # noqa: PLC0415
    from lifecycle_manager.domain_settings import tracing_options  # noqa: PLC0415
    from lifecycle_manager.logs import configure_logs  # noqa: PLC0415
    from lifecycle_manager.settings import Settings  # noqa: PLC0415
    from lifecycle_manager.takeover.flags import adapted  # noqa: PLC0415

    arguments, warnings = adapted(context.args)
    try:
        settings = Settings(_cli_parse_args=arguments)  # type: ignore[call-arg]  # pydantic-settings' own keyword
    except ValidationError as error:
        for problem in error.errors():
            option = "--" + "-".join(str(part) for part in problem["loc"]).replace("_", "-")
            typer.secho(f"{option}: {problem['msg']}", err=True, fg="red")
        raise typer.Exit(2) from None
    configure_logs(settings.log_level, settings.log_format)
    for warning in warnings:
        structlog.get_logger("klm").warning(warning)
    try:
        with tracing(tracing_options(settings)) as tracer:
            uvloop.run(run_lifecycle_manager(settings, tracer))
    except (KubeconfigInvalid, TracingUnavailable, DebugSocketUnusable) as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(1) from None


@app.command()
def debug(
    command: Annotated[str, typer.Argument(help="tasks, stacks, queues, loop, or log-level")],
    argument: Annotated[str, typer.Argument(help="the new level, for log-level", show_default=False)] = "",
    *,
    socket: Annotated[
        Path | None, typer.Option(help="its debug socket; default: that of this container's environment")
    ] = None,
) -> None:
    """Ask a running program what it is doing, or set its log level (`klm run --debug-socket`)."""
    from kyma_diagnostics.debug_client import DebugFailed, ask, socket_of_environment  # noqa: PLC0415

    try:
        typer.echo(ask(socket or socket_of_environment(), f"{command} {argument}".strip()), nl=False)
    except DebugFailed as error:
        typer.secho(str(error), err=True, fg="red")
        raise typer.Exit(2) from None


@app.command()
def crds(
    kubeconfig: Annotated[Path | None, typer.Option(help="apply them to this cluster instead of printing them")] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="write them into this folder, a file each, instead of printing them")
    ] = None,
) -> None:
    """Print the CustomResourceDefinitions as YAML, write them into files, or apply them to a cluster."""
    from kube_runtime import KubeError  # noqa: PLC0415
    from lifecycle_manager.crd_installation import crds_as_yaml, install_crds, write_crds  # noqa: PLC0415

    if directory is not None:
        for file in write_crds(directory):
            typer.echo(file)
    if kubeconfig is not None:
        try:
            for name in asyncio.run(install_crds(kubeconfig)):
                typer.echo(name)
        except (KubeError, OSError) as error:
            typer.secho(str(error), err=True, fg="red")
            raise typer.Exit(1) from None
    if directory is None and kubeconfig is None:
        typer.echo(crds_as_yaml(), nl=False)


def main() -> None:
    """Run the command line, with the commands that other distributions bring (entry points, group `klm.commands`).

    Only the one that is called is imported, unless its name has to be found first or all are listed.
    """
    found = {each.name: each for each in entry_points(group="klm.commands")}
    called = sys.argv[1] if len(sys.argv) > 1 else ""
    own = {each.callback.__name__ for each in app.registered_commands if each.callback is not None}
    for name in [called] if called in found else [] if called in own else sorted(found):
        command = found[name].load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name=name)(command)
    app()
