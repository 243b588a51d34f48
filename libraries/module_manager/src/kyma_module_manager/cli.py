"""The command line of the SDK: `kyma-module-manager run package.module:object`."""

import typer

from kyma_module_manager.project.commands import app as module_app
from kyma_module_manager.run_command import run

app = typer.Typer(
    name="kyma-module-manager",
    help="Run a Module Manager: a function from a Module CR to Kubernetes objects.",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
app.add_typer(module_app)


app.command()(run)


def main() -> None:
    """Entry point of the `kyma-module-manager` command."""
    app()
