"""The commands `klm module new`, `validate` and `package`."""

import asyncio
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.checks import NO_MODULE_CONFIG, notices, run_checks
from kyma_module_manager.project.generation import generate_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.packing import PackedModule, pack
from kyma_module_manager.project.reading import read_project
from kyma_oci import Artifact, Login, Registries, SourceError, artifact_in

__all__ = ["app"]

app = typer.Typer(name="module", help="Create, check and package a Kyma module.", no_args_is_help=True)
console = Console()
Directory = Annotated[Path, typer.Argument(help="Folder of the module's project.", file_okay=False)]
MODULE_CONFIG_FLAGS = ("--enableModuleConfig", "--enable-module-config/--no-enable-module-config")


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The module's name, such as cloud-resources.")],
    directory: Annotated[
        Path | None, typer.Option("--dir", help="Folder to create; by default the module's name.")
    ] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of the Module CR; by default derived from the name.")] = None,
    group: Annotated[
        str | None, typer.Option(help="API group of the Module CR; by default NAME.kyma-project.io.")
    ] = None,
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
    """Create a working module: manager, CRD, ModuleTemplate, ModuleReleaseMeta, ModulePolicy, chart, tests, README."""
    target = directory or Path(name)
    try:
        names = ModuleNames.of(name, kind=kind, group=group)
        written = generate_project(names, target, enable_module_config=enable_module_config)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from error
    for path in written:
        console.print(f"  {path}", highlight=False)
    if not enable_module_config:
        _print_notice(NO_MODULE_CONFIG)
    console.print(f"\n[green]✓[/] {len(written)} files. Next: [bold]cd {target}[/] and [bold]klm module validate[/]")


@app.command()
def validate(directory: Directory = Path()) -> None:
    """Check that the parts of a module are valid and consistent, without contacting any server."""
    try:
        project = read_project(directory)
        results = run_checks(project)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from error
    for result in results:
        console.print(f"{'[red]✗[/]' if result.problems else '[green]✓[/]'} {result.title}", highlight=False)
        for problem in result.problems:
            console.print(f"    {_shown(problem)}", highlight=False)
    for notice in notices(project):
        _print_notice(notice)
    if any(result.problems for result in results):
        raise typer.Exit(1)


@app.command()
def package(
    directory: Directory = Path(),
    *,
    registry: Annotated[str, typer.Option(help="Registry to push to, as host[:port][/path].")],
    username: Annotated[str | None, typer.Option(envvar="MODULE_REGISTRY_USERNAME")] = None,
    password: Annotated[str | None, typer.Option(envvar="MODULE_REGISTRY_PASSWORD", show_default=False)] = None,
    plain_http: Annotated[
        bool, typer.Option("--plain-http", help="Use HTTP without TLS, for a local registry.")
    ] = False,
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
    """Push a module as an OCM component version and write the ModuleTemplate that refers to it."""
    host, _, path = registry.partition("/")
    login = Login(username, password) if username and password else None
    target = output or directory / "dist" / "module-template.yaml"
    try:
        _check_target(target, () if output else (target.parent,))
        project = read_project(directory)
        packed = pack(project, host, path=path.strip("/"), enable_module_config=enable_module_config)
        address = f"{'http' if plain_http else 'https'}://{host}"
        artifact = artifact_in(address, packed.repository, packed.tag, plain_http=plain_http)
        digest = asyncio.run(_push(artifact, login, packed))
    except (DeclarationError, SourceError) as error:
        console.print(f"[red]✗[/] {_shown(error)}", highlight=False)
        raise typer.Exit(1) from error
    _replace(target, dump_yaml(packed.module_template))
    console.print(f"[green]✓[/] {artifact}@{digest}", highlight=False, soft_wrap=True)
    console.print(f"[green]✓[/] {target}: apply it to the control plane", highlight=False, soft_wrap=True)
    if project.manager is not None and not packed.module_template["spec"].get("enableModuleConfig"):
        _print_notice(NO_MODULE_CONFIG)


def _print_notice(text: str) -> None:
    console.print(f"[yellow]![/] {_shown(text)}", highlight=False, soft_wrap=True)


def _shown(text: object) -> str:
    """Return lines as they are printed: without control characters, and nothing in them is markup."""
    return escape("".join(each if each.isprintable() or each == "\n" else "?" for each in str(text)))


def _check_target(target: Path, folders: tuple[Path, ...]) -> None:
    """Raise DeclarationError where a file would be written through a link of the project, or over a device."""
    for each in (target, *folders):
        if each.is_symlink():
            raise DeclarationError(f"{each} is a symbolic link: remove it, or choose another --output")
    if target.exists() and not target.is_file():
        raise DeclarationError(f"{target} is not a regular file: choose another --output")


def _replace(target: Path, text: str) -> None:
    """Write a file as a whole in the place of what has its name, and through no link."""
    target.parent.mkdir(parents=True, exist_ok=True)
    with NamedTemporaryFile("w", dir=target.parent, prefix=f".{target.name}-", delete=False) as file:
        file.write(text)
    written = Path(file.name)
    written.chmod(0o644)
    written.replace(target)


async def _push(artifact: Artifact, login: Login | None, packed: PackedModule) -> str:
    registries = Registries()
    try:
        return await registries.push(artifact, packed.config, packed.layers, login)
    finally:
        await registries.close()
