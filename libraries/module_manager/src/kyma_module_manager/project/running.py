"""What the commands `klm module …` do with a project, and what they print."""

import asyncio
import difflib
from collections.abc import Callable
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.checks import CHECKS, NO_MODULE_CONFIG, notices, require_well_formed, run_checks
from kyma_module_manager.project.generation import CRD, crd_text, generate_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.packing import PackedModule, pack
from kyma_module_manager.project.reading import Document, kind_of, read_project
from kyma_module_manager.project.writing import check_target, replace_file
from kyma_oci import Artifact, Login, Registries, SourceError, artifact_in
from kyma_oci.signatures import KeyUnreadable, Unverified, private_key_in, sign

__all__ = ["create", "push", "update", "validate"]

console = Console()


def create(names: ModuleNames, target: Path, *, enable_module_config: bool) -> None:
    """Write the files of a new module. Raises DeclarationError."""
    written = generate_project(names, target, enable_module_config=enable_module_config)
    for path in written:
        console.print(f"  {path}", highlight=False)
    if not enable_module_config:
        _print_notice(NO_MODULE_CONFIG)
    commands = f"[bold]cd {target}[/] and [bold]kyma-module-manager module validate[/]"
    console.print(f"\n[green]✓[/] {len(written)} files. Next: {commands}")


def validate(directory: Path) -> bool:
    """Print what is right and wrong in a project; return whether all is right. Raises DeclarationError."""
    project = read_project(directory)
    results = run_checks(project)
    for result in results:
        console.print(f"{'[red]✗[/]' if result.problems else '[green]✓[/]'} {result.title}", highlight=False)
        for problem in result.problems:
            console.print(f"    {_shown(problem)}", highlight=False)
    for notice in notices(project) if len(results) == len(CHECKS) else ():
        _print_notice(notice)
    return not any(result.problems for result in results)


def update(directory: Path, *, check: bool) -> bool:
    """Print and write what changes in the CRD, or `check` it; return whether it is current. Raises DeclarationError."""
    if (kind := kind_of(read_project(directory))) is None:
        raise DeclarationError(f"{directory}: the manager's Module CR is no class of kube_crds, which has a CRD")
    file, after = directory / CRD, crd_text(kind)
    before = file.read_text() if file.is_file() else ""
    if before == after:
        console.print("[green]✓[/] the CRD is that of the class", highlight=False)
        return True
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), CRD, CRD, n=1, lineterm=""):
        console.print(_shown(line), highlight=False, soft_wrap=True)
    if not check:
        check_target(file, [file.parent])
        replace_file(file, after)
    what = f"{CRD} differs; run kyma-module-manager module update" if check else f"{CRD} written"
    console.print(f"{'[red]✗[/]' if check else '[green]✓[/]'} {what}", highlight=False)
    return not check


def push(
    directory: Path,
    registry: str,
    login: Login | None,
    *,
    plain_http: bool,
    output: Path | None,
    enable_module_config: bool | None,
    key: Path | None = None,
) -> bool:
    """Push a project, and write the ModuleTemplate that refers to it; return whether that was possible.

    `key` is the file with the private key that signs the component's descriptor.
    """
    host, _, path = registry.partition("/")
    target = output or directory / "dist" / "module-template.yaml"
    try:
        check_target(target, () if output else (target.parent,))
        project = read_project(directory)
        require_well_formed(project)
        signed = _signer(key) if key is not None else None
        packed = pack(project, host, path=path.strip("/"), enable_module_config=enable_module_config, signed=signed)
        address = f"{'http' if plain_http else 'https'}://{host}"
        artifact = artifact_in(address, packed.repository, packed.tag, plain_http=plain_http)
        digest = asyncio.run(_push(artifact, login, packed))
    except (DeclarationError, KeyUnreadable, SourceError, Unverified) as error:
        console.print(f"[red]✗[/] {_shown(error)}", highlight=False)
        return False
    replace_file(target, dump_yaml(packed.module_template))
    console.print(f"[green]✓[/] {artifact}@{digest}", highlight=False, soft_wrap=True)
    console.print(f"[green]✓[/] {target}: apply it to the control plane", highlight=False, soft_wrap=True)
    if project.manager is not None and not packed.module_template["spec"].get("enableModuleConfig"):
        _print_notice(NO_MODULE_CONFIG)
    return True


def _signer(key: Path) -> Callable[[Document], Document]:
    """Return what signs a descriptor. Raises DeclarationError, KeyUnreadable."""
    try:
        private = private_key_in(key.read_bytes(), str(key))
    except OSError as error:
        raise DeclarationError(f"{key} can't be read: {error.strerror}") from None
    return lambda descriptor: sign(descriptor, private)


def _print_notice(text: str) -> None:
    console.print(f"[yellow]![/] {_shown(text)}", highlight=False, soft_wrap=True)


def _shown(text: object) -> str:
    """Return lines as they are printed: without control characters, and nothing in them is markup."""
    return escape("".join(each if each.isprintable() or each == "\n" else "?" for each in str(text)))


async def _push(artifact: Artifact, login: Login | None, packed: PackedModule) -> str:
    registries = Registries()
    try:
        return await registries.push(artifact, packed.config, packed.layers, login)
    finally:
        await registries.close()
