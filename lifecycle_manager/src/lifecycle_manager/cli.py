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


@app.command()
def run() -> None:
    """Run the Lifecycle Manager (`klm run --help` lists its options)."""
    raise AssertionError("main() puts the command with the options of all domains in its place")


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
    from lifecycle_manager.process.crd_installation import crds_as_yaml, install_crds, write_crds  # noqa: PLC0415

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
    called, arguments = (sys.argv[1] if len(sys.argv) > 1 else ""), sys.argv[1:]
    own = {each.callback.__name__ for each in app.registered_commands if each.callback is not None}
    if called == run.__name__:
        from lifecycle_manager.command_line import run_command  # noqa: PLC0415 - it imports all domains

        command, options = run_command(arguments[1:])
        app.command(name=called, add_help_option=False)(command)
        arguments = [called, *options]
    for name in [called] if called in found else [] if called in own else sorted(found):
        command = found[name].load()
        if isinstance(command, typer.Typer):
            app.add_typer(command, name=name)
        else:
            app.command(name=name)(command)
    app(arguments)
