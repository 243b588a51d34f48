"""What the commands `klm module …` do with a project, and what they print."""

import asyncio
import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from kube_runtime import dump_yaml
from kube_runtime.client.proxies import proxy_of_environment
from kube_runtime.project import write_files
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.checks import (
    CHECKS,
    no_module_config,
    notices,
    of_its_own,
    require_well_formed,
    returned_status,
    run_checks,
)
from kyma_module_manager.project.command_name import module_command
from kyma_module_manager.project.generation import CRD, GENERATED, crd_text, generate_project
from kyma_module_manager.project.modulectl.checks import module_notices
from kyma_module_manager.project.modulectl.component import pack_module
from kyma_module_manager.project.modulectl.module import commit_of, config_file
from kyma_module_manager.project.modulectl.running import checked_module, project_of, validate_module
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.project.packing import PackedModule, Signed, pack
from kyma_module_manager.project.printing import print_line, print_notice, print_problem, print_result, shown, tally
from kyma_module_manager.project.reading import kind_of, read_project
from kyma_module_manager.project.status import status_notices
from kyma_module_manager.project.writing import check_target, replace_file
from kyma_oci import Artifact, Login, Registries, SourceError, artifact_in
from kyma_oci.signatures.descriptors import sign
from kyma_oci.signatures.keys import KeyUnreadable, private_key_in
from kyma_oci.signatures.normal_form import Unverified


def create(names: ModuleNames, target: Path, *, enable_module_config: bool) -> None:
    """Write the files of a new module. Raises DeclarationError."""
    _print_created(generate_project(names, target, enable_module_config=enable_module_config), target)
    if not enable_module_config:
        print_notice(no_module_config())


def create_from(config: Path, target: Path | None, sources: Path) -> None:
    """Write a project for the module of a `module-config.yaml`. Raises DeclarationError."""
    module = checked_module(config)
    texts = project_of(module, commit_of(sources))
    folder = target or Path(module.config.module)
    try:
        _print_created(write_files(folder, texts), folder)
    except OSError as error:
        raise DeclarationError(f"{error}; choose another folder with --dir") from None


def _print_created(written: Iterable[Path], target: Path) -> None:
    """Print the files of a new project, and what comes next."""
    files = tuple(written)
    for path in files:
        print_line(f"  {shown(path)}")
    next_steps = f"[bold]cd {shown(target)}[/] and [bold]{module_command()} validate[/]"
    print_line(f"\n[green]✓[/] {len(files)} files. Next: {next_steps}")


def validate(module: Path) -> bool:
    """Print what is right and wrong in a module; return whether all is right. Raises DeclarationError."""
    if (file := config_file(module)) is not None:
        return validate_module(file)
    project = read_project(module)
    results = run_checks(project)
    for result in results:
        print_result(result.title, result.problems)
    if len(results) == len(CHECKS):
        crds = project.module_crds()
        if crds and not any(status_notices(crds, returned_status(project))):
            kinds = ", ".join(each["spec"]["names"]["kind"] for each in crds)
            print_result(f"the status of {kinds} can carry the answer of Lifecycle Manager", ())
        for notice in notices(project):
            print_notice(notice)
    return not any(result.problems for result in results)


def update(directory: Path, *, check: bool) -> bool:
    """Print and write what changes in the CRD, or `check` it; return whether it is current. Raises DeclarationError."""
    if (kind := kind_of(read_project(directory))) is None:
        raise DeclarationError(f"{directory}: the manager's Module CR is no class of kube_crds, which has a CRD")
    file, after = directory / CRD, crd_text(kind)
    before = file.read_text() if file.is_file() else ""
    if before == after:
        print_line("[green]✓[/] the CRD is that of the class")
        return True
    if before and not before.startswith(GENERATED):
        raise DeclarationError(f"{file} is not generated: {of_its_own(kind)}, or delete the file to have it generated")
    for line in difflib.unified_diff(before.splitlines(), after.splitlines(), CRD, CRD, n=1, lineterm=""):
        print_line(shown(line))
    if not check:
        check_target(file, [file.parent])
        replace_file(file, after)
    what = f"{CRD} differs; run {module_command()} update" if check else f"{CRD} written"
    print_line(f"{'[red]✗[/]' if check else '[green]✓[/]'} {what}")
    return not check


def push(
    module: Path,
    registry: str,
    login: Login | None,
    *,
    plain_http: bool,
    output: Path | None,
    enable_module_config: bool | None,
    sources: Path,
    key: Path | None = None,
) -> bool:
    """Push a module, and write the ModuleTemplate that refers to it; return whether that was possible.

    `sources` is the Git repository of a module of modulectl, `key` the file with the private key that signs the
    component's descriptor.
    """
    folder = module.parent if module.is_file() else module
    host, _, path = (registry.partition("://")[2] or registry).partition("/")
    registry = "/".join(filter(None, (host, path.strip("/"))))
    target = output or folder / "dist" / "module-template.yaml"
    try:
        check_target(target, () if output else (target.parent,))
        signed = _signer(key) if key is not None else None
        packed = _pack(module, registry, sources, enable_module_config=enable_module_config, signed=signed)
        component = packed.component
        address = f"{'http' if plain_http else 'https'}://{host}"
        artifact = artifact_in(address, component.repository, component.tag, plain_http=plain_http)
        digest = asyncio.run(_push(artifact, login, component))
        replace_file(target, dump_yaml(component.module_template))
    except (DeclarationError, KeyUnreadable, SourceError, Unverified) as error:
        print_problem(error)
        return False
    print_line(f"[green]✓[/] {shown(artifact)}@{digest}")
    print_line(f"[green]✓[/] {shown(packed.contents)}")
    print_line(f"[green]✓[/] {shown(target)}: apply it to the control plane")
    for each in packed.notices:
        print_notice(each)
    return True


class _Packed(NamedTuple):
    component: PackedModule
    contents: str
    notices: tuple[str, ...]


def _pack(
    module: Path,
    registry: str,
    sources: Path,
    *,
    enable_module_config: bool | None,
    signed: Signed | None,
) -> _Packed:
    """Pack a module with all its objects. Raises DeclarationError."""
    if (file := config_file(module)) is not None:
        found, commit = checked_module(file), commit_of(sources)
        component = pack_module(found, commit, registry, enable_module_config=enable_module_config, signed=signed)
        return _Packed(component, tally(each.kind for each in found.objects), tuple(module_notices(found)))
    project = read_project(module)
    if project.left_out:
        raise DeclarationError("\n".join((*project.left_out, "nothing was pushed")))
    require_well_formed(project)
    component = pack(project, registry, enable_module_config=enable_module_config, signed=signed)
    unused = project.manager is not None and not component.module_template["spec"].get("enableModuleConfig")
    others = [f"not in the package: {each}" for each in project.others()]
    known = (*project.warnings, *others, *([no_module_config()] if unused else []))
    return _Packed(component, tally(each["kind"] for each in project.objects()), known)


def _signer(key: Path) -> Signed:
    """Return what signs a descriptor. Raises DeclarationError, KeyUnreadable."""
    try:
        private = private_key_in(key.read_bytes(), str(key))
    except OSError as error:
        raise DeclarationError(f"{key} can't be read: {error.strerror}") from None
    return lambda descriptor: sign(descriptor, private)


async def _push(artifact: Artifact, login: Login | None, packed: PackedModule) -> str:
    registries = Registries(proxy_of=proxy_of_environment)
    try:
        return await registries.push(artifact, packed.config, packed.layers, login)
    finally:
        await registries.close()
