"""What the commands `klm module …` do with a module of modulectl, and what they print."""

from pathlib import Path

from kube_runtime import dump_yaml
from kyma_module_manager.exceptions import DeclarationError
from kyma_module_manager.project.modulectl.checks import MODULECTL_CHECKS, module_notices
from kyma_module_manager.project.modulectl.component import (
    MODULE_TEMPLATE,
    component_of,
    constructor_of,
    module_template,
)
from kyma_module_manager.project.modulectl.module import ModulectlModule, commit_of, read_module
from kyma_module_manager.project.packing import DEFAULT_CR
from kyma_module_manager.project.printing import print_line, print_notice, print_problem, print_result, shown, tally
from kyma_module_manager.project.reading import Document
from kyma_module_manager.project.status import status_notices
from kyma_module_manager.project.writing import check_target, replace_file
from kyma_oci.descriptor import RAW_MANIFEST
from kyma_oci.packing import provider_text
from lifecycle_manager_api import ModuleReleaseMeta, names


def validate_module(file: Path) -> bool:
    """Print what is right and wrong in a module; return whether all is right. Raises DeclarationError."""
    module = read_module(file)
    print_result(f"{file.name} has what modulectl requires, and {module.manifest.name} has {_contents(module)}", ())
    results = [(title, tuple(check(module))) for title, check in MODULECTL_CHECKS]
    for title, problems in results:
        print_result(title, problems)
    if module.module_crds and not any(status_notices(module.module_crds)):
        print_result("the status of the Module CR can carry the answer of Lifecycle Manager", ())
    for notice in module_notices(module):
        print_notice(notice)
    return not any(problems for _, problems in results)


def checked_module(file: Path) -> ModulectlModule:
    """Read a module in which nothing is wrong. Raises DeclarationError."""
    module = read_module(file)
    problems = [problem for _, check in MODULECTL_CHECKS for problem in check(module)]
    if problems:
        raise DeclarationError("\n".join(f"{file}: {each}" for each in problems))
    return module


def create_files(file: Path, template: Path, constructor: Path, *, sources: Path) -> bool:
    """Write the ModuleTemplate and the constructor of a module; return whether that was possible."""
    try:
        module, commit = checked_module(file), commit_of(sources)
        paths, texts = dict[str, Path](), dict[Path, str]()
        for name, each in ((RAW_MANIFEST, module.manifest), (DEFAULT_CR, module.default)):
            if each is not None:
                paths[name] = each.path or constructor.absolute().parent / each.name
            if each is not None and each.path is None:
                texts[paths[name]] = each.text
        paths[MODULE_TEMPLATE] = template.absolute()
        texts[template] = dump_yaml(module_template(module))
        texts[constructor] = dump_yaml(constructor_of(module, commit, paths))
        for target in texts:
            check_target(target, ())
        for target, text in texts.items():
            replace_file(target, text)
            print_line(f"[green]✓[/] {shown(target)}")
    except DeclarationError as error:
        print_problem(error)
        return False
    print_line(f"[green]✓[/] {shown(_contents(module))}")
    for notice in module_notices(module):
        print_notice(notice)
    return True


def project_of(module: ModulectlModule, commit: str) -> dict[str, str]:
    """Return the files of a project with the same ModuleTemplate, component and objects."""
    config = module.config
    template = module_template(module)
    template["metadata"]["namespace"] = names.KCP_NAMESPACE
    component = component_of(module, commit)
    component["provider"] = provider_text(component["provider"])
    template["spec"]["descriptor"] = {"meta": {"schemaVersion": "v2"}, "component": component}
    offered: Document = (
        {"mandatory": {"version": config.version}}
        if config.mandatory
        else {"channels": [{"channel": channel, "version": config.version} for channel in ("regular", "fast")]}
    )
    release = {
        "apiVersion": f"{ModuleReleaseMeta.GROUP}/{ModuleReleaseMeta.VERSION}",
        "kind": ModuleReleaseMeta.KIND,
        "metadata": {"name": config.module, "namespace": names.KCP_NAMESPACE},
        "spec": {"moduleName": config.module, "ocmComponentName": config.name, **offered},
    }
    return {
        "module/manifest.yaml": module.manifest.text,
        "module/module-template.yaml": dump_yaml(template),
        "module/module-release-meta.yaml": dump_yaml(release),
    }


def _contents(module: ModulectlModule) -> str:
    return tally(each.kind for each in module.objects)
