"""`new`, `validate` and `package`: from a name to a module in a registry."""

import asyncio
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.checks import run_checks
from kyma_module_manager.project.generation import generate_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.packing import ComponentVersion, pack
from kyma_module_manager.project.reading import read_project
from kyma_module_manager.project.registry import Credentials, Registry, RegistryError

__all__ = ["app"]

app = typer.Typer(name="module", help="Make, check and pack a Kyma module.", no_args_is_help=True)
console = Console()
Directory = Annotated[Path, typer.Argument(help="The module's project.", file_okay=False)]


@app.command()
def new(
    name: Annotated[str, typer.Argument(help="The module's name, such as cloud-resources.")],
    directory: Annotated[Path | None, typer.Option("--dir", help="Where to; by default a folder of that name.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of the Module CR; by default made from the name.")] = None,
    group: Annotated[str | None, typer.Option(help="Its API group; by default NAME.kyma-project.io.")] = None,
) -> None:
    """Make a module that works: manager, CRD, ModuleTemplate, ModuleReleaseMeta, chart, tests, README."""
    target = directory or Path(name)
    try:
        written = generate_project(ModuleNames.of(name, kind=kind, group=group), target)
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from error
    for path in written:
        console.print(f"  {path}", highlight=False)
    console.print(f"\n[green]✓[/] {len(written)} files. Next: [bold]cd {target}[/] and [bold]klm module validate[/]")


@app.command()
def validate(directory: Directory = Path()) -> None:
    """Check that everything in a module fits together; nothing is sent anywhere."""
    try:
        results = run_checks(read_project(directory))
    except DeclarationError as error:
        raise typer.BadParameter(str(error)) from error
    for result in results:
        console.print(f"{'[red]✗[/]' if result.problems else '[green]✓[/]'} {result.title}", highlight=False)
        for problem in result.problems:
            console.print(f"    {problem}", highlight=False, markup=False)
    if any(result.problems for result in results):
        raise typer.Exit(1)


@app.command()
def package(
    directory: Directory = Path(),
    *,
    registry: Annotated[str, typer.Option(help="Where to push, as host[:port][/path].")],
    username: Annotated[str | None, typer.Option(envvar="MODULE_REGISTRY_USERNAME")] = None,
    password: Annotated[str | None, typer.Option(envvar="MODULE_REGISTRY_PASSWORD", show_default=False)] = None,
    plain_http: Annotated[bool, typer.Option("--plain-http", help="Without TLS, for a registry nearby.")] = False,
    output: Annotated[Path | None, typer.Option(help="ModuleTemplate to write, with the descriptor in it.")] = None,
) -> None:
    """Push a module as an OCM component version and write the ModuleTemplate that refers to it."""
    host, _, path = registry.partition("/")
    credentials = Credentials(username, password) if username and password else None
    try:
        packed = pack(read_project(directory), host, path.strip("/"))
        digest = asyncio.run(_push(f"{'http' if plain_http else 'https'}://{host}", credentials, packed))
    except (DeclarationError, RegistryError) as error:
        console.print(f"[red]✗[/] {error}", highlight=False)
        raise typer.Exit(1) from error
    target = output or directory / "dist" / "module-template.yaml"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(dump_yaml(packed.module_template))
    console.print(f"[green]✓[/] {host}/{packed.repository}:{packed.tag}@{digest}", highlight=False, soft_wrap=True)
    console.print(f"[green]✓[/] {target}; apply it in the control plane", highlight=False, soft_wrap=True)


async def _push(url: str, credentials: Credentials | None, packed: ComponentVersion) -> str:
    async with Registry(url, credentials) as registry:
        return await registry.push(packed.repository, packed.tag, packed.config, packed.layers)
