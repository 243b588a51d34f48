"""The commands `klm module new`, `update`, `run`, `validate`, `policy`, `create` and `package`."""

from pathlib import Path
from typing import Annotated

import typer

from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.run_command import run

app = typer.Typer(
    name="module",
    help="Create, run, check and package a Kyma module.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)
Directory = Annotated[Path, typer.Argument(help="Folder of the module's project.", file_okay=False)]
Module = Annotated[
    Path, typer.Argument(help="Folder of the module's project, or of modulectl's module-config.yaml, or that file.")
]
Sources = Annotated[
    Path,
    typer.Option(
        "--module-sources-git-directory",
        metavar="FOLDER",
        help="Git repository of the module's sources, whose commit the component of a module-config.yaml names.",
    ),
]
MODULE_CONFIG_FLAGS = ("--enableModuleConfig", "--enable-module-config/--no-enable-module-config")


@app.command()
def new(
    name: Annotated[
        str | None, typer.Argument(help="The module's name, such as cloud-resources.", show_default=False)
    ] = None,
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Folder to create; by default the module's name.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of the Module CR; by default derived from the name.")] = None,
    group: Annotated[
        str | None, typer.Option(help="API group of the Module CR; by default NAME.kyma-project.io.")
    ] = None,
    from_config: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Take the module from modulectl's module-config.yaml.", dir_okay=False
        ),
    ] = None,
    sources: Sources = Path(),
    *,
    enable_module_config: Annotated[
        bool,
        typer.Option(
            *MODULE_CONFIG_FLAGS,
            help="Set spec.enableModuleConfig in the ModuleTemplate: Lifecycle Manager writes ModuleConfigs, from "
            "which the manager reads the Module CRs. Without it the module is installed by its Manifest alone.",
        ),
    ] = False,
) -> None:
    """Create a module that works.

    It has a manager, a CRD, ModuleTemplate, ModuleReleaseMeta, ModulePolicy, a chart, tests, and a README. From a
    module-config.yaml it has its objects, ModuleTemplate and ModuleReleaseMeta, and no manager in the control plane.
    """
    from kyma_module_manager.project import running
    from kyma_module_manager.project.names import ModuleNames

    if (name is None) == (from_config is None):
        raise typer.BadParameter("give either the module's NAME or --from module-config.yaml")
    if from_config is not None and enable_module_config:
        raise typer.BadParameter("--from makes no manager for --enableModuleConfig: create one by its NAME")
    try:
        if from_config is not None:
            running.create_from(from_config, directory, sources)
            return
        names = ModuleNames.of(str(name), kind=kind, group=group)
        running.create(names, directory or Path(names.module), enable_module_config=enable_module_config)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None


app.command()(run)


@app.command()
def update(
    directory: Directory = Path(),
    *,
    check: Annotated[
        bool, typer.Option("--check", help="Write nothing; exit code 1 if something would change.")
    ] = False,
) -> None:
    """Generate the CRD from the class of the Module CR."""
    from kyma_module_manager.project import running

    try:
        is_current = running.update(directory, check=check)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    if not is_current:
        raise typer.Exit(1)


@app.command()
def validate(module: Module = Path()) -> None:
    """Check that the parts of a module are valid and agree.

    No server is asked.
    """
    from kyma_module_manager.project import running

    try:
        valid = running.validate(module)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None
    if not valid:
        raise typer.Exit(1)


@app.command()
def policy(
    file: Annotated[Path, typer.Argument(help="YAML of the objects that install the module.", dir_okay=False)],
    *,
    module: Annotated[str, typer.Option(help="Name of the module.")],
) -> None:
    """Print the ModulePolicy that a module needs for its objects.

    Operators review it, and apply it to the control plane.
    """
    from kyma_module_manager.project.policy import derived_policy

    try:
        typer.echo(derived_policy(file, module), nl=False)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from None


@app.command()
def create(
    config_file: Annotated[
        Path, typer.Option("--config-file", "-c", metavar="FILE", help="The module-config.yaml.", dir_okay=False)
    ] = Path("module-config.yaml"),
    sources: Sources = Path(),
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FILE", help="ModuleTemplate to write.", dir_okay=False)
    ] = Path("template.yaml"),
    constructor: Annotated[
        Path,
        typer.Option(
            "--output-constructor-file", metavar="FILE", help="Constructor of the component to write.", dir_okay=False
        ),
    ] = Path("component-constructor.yaml"),
    *,
    _: Annotated[bool, typer.Option("--skip-version-validation", help="As modulectl does by default.")] = True,
) -> None:
    """Write the files that modulectl writes.

    ModuleTemplate and component constructor are made of a module-config.yaml.

    OCM's program makes the component of the constructor; `package` pushes the same at once.
    """
    from kyma_module_manager.project.modulectl.running import create_files

    if not create_files(config_file, output, constructor, sources=sources):
        raise typer.Exit(1)


@app.command()
def package(
    module: Module = Path(),
    sources: Sources = Path(),
    *,
    registry: Annotated[str, typer.Option(help="Registry to push to, as host[:port][/path].")],
    username: Annotated[
        str | None, typer.Option(envvar="MODULE_REGISTRY_USERNAME", help="User at the registry.")
    ] = None,
    password: Annotated[
        str | None, typer.Option(envvar="MODULE_REGISTRY_PASSWORD", show_default=False, help="Password of that user.")
    ] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Use HTTP without TLS, for a local registry.")
    ] = False,
    sign: Annotated[
        Path | None,
        typer.Option(
            metavar="KEY",
            help="Private RSA key, as PEM without a password, that signs the component's descriptor. "
            "The ModulePolicy of the module names a Secret with its public key.",
            dir_okay=False,
        ),
    ] = None,
    output: Annotated[
        Path | None, typer.Option(help="ModuleTemplate to write; by default dist/module-template.yaml.")
    ] = None,
    enable_module_config: Annotated[
        bool | None,
        typer.Option(
            *MODULE_CONFIG_FLAGS,
            help="Set spec.enableModuleConfig in the ModuleTemplate to write; by default as in the project's.",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Push a module, and write the ModuleTemplate that refers to it.

    It is pushed as an OCM component version.
    """
    from kyma_module_manager.project import running
    from kyma_oci import Login

    pushed = running.push(
        module,
        registry,
        Login(username, password) if username and password else None,
        plain_http=plain_http,
        output=output,
        enable_module_config=enable_module_config,
        sources=sources,
        key=sign,
    )
    if not pushed:
        raise typer.Exit(1)
