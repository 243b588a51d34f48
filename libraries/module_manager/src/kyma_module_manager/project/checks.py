"""The checks of `klm module validate`: each is a function from the project to the problems that it finds."""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

import msgspec

from kube_crds import CustomResource, crd_of
from kube_runtime import KubernetesObject
from kyma_module_manager.exceptions import DeclarationError, SyncFailed
from kyma_module_manager.project.command_name import module_command
from kyma_module_manager.project.generation import CRD, GENERATED
from kyma_module_manager.project.kinds import kind_violations
from kyma_module_manager.project.names import MAX_LABEL_LENGTH, MAX_MODULE_NAME_LENGTH, MODULE_NAME
from kyma_module_manager.project.policy import policy_as_yaml
from kyma_module_manager.project.reading import Document, ModuleProject, kind_of, text_of
from kyma_module_manager.project.schema import Schema, schema_of, schemas_of, violations
from kyma_module_manager.project.status import FIELDS, status_notices
from kyma_module_manager.testing import RenderedObjects, render_module_cr
from lifecycle_manager_api import ModulePolicy, ModuleReleaseMeta, ModuleTemplate, names
from lifecycle_manager_api.crds import all_crds
from lifecycle_manager_api.needed_policy import needed_policy
from lifecycle_manager_api.policy_checks import DEFAULTS, ModuleRules, policy_violations

VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?")
READ_VERBS = {"get", "list", "watch"}
WRITE_VERBS = {"get", "create", "patch", "delete"}


def no_module_config() -> str:
    """Return what the author of a module without ModuleConfigs should know."""
    return (
        "spec.enableModuleConfig is off: Lifecycle Manager writes no ModuleConfig, so the manager's function is never "
        "called. The module is installed by its Manifest alone. To use the manager, set it to true in the "
        f"ModuleTemplate, or run {module_command()} package --enableModuleConfig."
    )


def of_its_own(kind: type[CustomResource]) -> str:
    """Return what the author of a module does whose CRD is not generated from the class of its Module CR."""
    return f"make {kind.__name__} a msgspec.Struct with the fields that the function reads"


def returned_status(project: ModuleProject) -> frozenset[str]:
    """Return the fields that the function adds to the status of every Module CR of the project."""
    fields = [frozenset(rendered.status) for _, _, rendered in _renderings(project)]
    return frozenset.intersection(*fields) if fields else frozenset()


@dataclass(frozen=True, slots=True)
class CheckResult:
    """One check and the problems that it found."""

    title: str
    problems: tuple[str, ...]


def run_checks(project: ModuleProject) -> tuple[CheckResult, ...]:
    """Run all checks in order, up to one about documents and parts that finds a problem: the others need these."""
    results: list[CheckResult] = []
    for title, check in CHECKS:
        problems = tuple(check(project))
        results.append(CheckResult(title, problems))
        if problems and check in (_types, _parts):
            break
    return tuple(results)


def require_well_formed(project: ModuleProject) -> None:
    """Raise DeclarationError unless all documents of the project have the fields of their kinds."""
    for problem in _types(project):
        raise DeclarationError(f"{problem}; run {module_command()} validate")


class _Meta(msgspec.Struct, rename="camel"):
    schema_version: str


class _Component(msgspec.Struct, rename="camel"):
    """What is read from the component of a descriptor that is not packed yet."""

    name: str
    version: str
    provider: str = ""
    repository_contexts: list[Document] = []
    sources: list[Document] = []
    component_references: list[Document] = []
    resources: list[Document] = []


class _Descriptor(msgspec.Struct):
    meta: _Meta
    component: _Component


def notices(project: ModuleProject) -> Iterator[str]:
    """Yield what the author of a valid module should know about it."""
    if project.manager is not None and not _enables_module_config(project):
        yield no_module_config()
    if _enables_module_config(project):
        yield from status_notices(project.module_crds(), returned_status(project))
    if (kind := kind_of(project)) is not None and crd_of(kind) not in project.module_crds():
        is_generated = (file := project.directory / CRD).is_file() and text_of(file).startswith(GENERATED)
        what = f"run {module_command()} update" if is_generated else of_its_own(kind)
        yield f"{CRD} is not that of the class {kind.__name__}: {what}"
    if not project.of_kind(ModulePolicy.KIND) and (needed := needed_module_policy(project)) is not None:
        yield f"the module needs a ModulePolicy; ask the operators of the control plane for this one:\n\n{needed}"


def needed_module_policy(project: ModuleProject) -> str | None:
    """Return the ModulePolicy that a module needs, as YAML; None where the defaults allow all that it has."""
    module = _template(project).get("moduleName", "")
    sets = [things for _, things in _object_sets(project)]
    rules = ModuleRules(module)
    if not any(any(policy_violations(things, rules, default_namespace=names.SKR_NAMESPACE)) for things in sets):
        return None
    spec = needed_policy((it for things in sets for it in things), module, default_namespace=names.SKR_NAMESPACE)
    if spec.pod_security == "restricted":
        spec = msgspec.structs.replace(spec, pod_security=DEFAULTS.pod_security)
    return policy_as_yaml(module, spec)


def _read(project: ModuleProject) -> Iterator[str]:
    yield from project.left_out


def _parts(project: ModuleProject) -> Iterator[str]:
    templates, releases = project.of_kind(ModuleTemplate.KIND), project.of_kind(ModuleReleaseMeta.KIND)
    if len(templates) != 1:
        yield f"folder module: found {len(templates)} of kind ModuleTemplate, expected 1"
    if len(releases) > 1:
        yield f"folder module: found {len(releases)} of kind ModuleReleaseMeta, expected 1 or none"
    if not project.objects():
        yield "folder module: found no object that installs the module"
    if not project.module_crds() and _enables_module_config(project):
        yield _missing_crd(project)
    if project.manager is None and _enables_module_config(project):
        yield 'pyproject.toml names no manager; expected [tool.kyma-module] manager = "package:objects"'


def _missing_crd(project: ModuleProject) -> str:
    wanted = {f"{each['kind']} of {each['apiVersion']}" for _, each in project.module_crs()}
    others = [each["spec"] for each in project.of_kind("CustomResourceDefinition")]
    found = ", ".join(f"{each['names']['kind']} of {each['group']}" for each in others)
    missing = f"found no CustomResourceDefinition of {' and '.join(sorted(wanted)) or 'the Module CR'}"
    return f"folder module: {missing}{f'; there is {found}' if found else ''}"


def _types(project: ModuleProject) -> Iterator[str]:
    schemas = schemas_of(all_crds())
    for document in project.documents:
        for problem in _type_problems(document, schemas):
            yield f"{document['kind']}: {problem}"


def _type_problems(document: Document, schemas: Mapping[tuple[str, str], Schema]) -> Iterator[str]:
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str) or not metadata["name"]:
        yield "metadata has no name"
    found = [*kind_violations(document, complete=True)]
    if (schema := schemas.get((document["apiVersion"], document["kind"]))) is not None:
        found += violations(document, schema)
    yield from found
    if document["kind"] == ModuleTemplate.KIND and not found:
        try:
            msgspec.convert(document["spec"].get("descriptor"), _Descriptor)
        except msgspec.ValidationError as error:
            yield f"spec.descriptor: {error}"


def _names(project: ModuleProject) -> Iterator[str]:
    module = _template(project).get("moduleName", "")
    if not MODULE_NAME.fullmatch(module):
        yield f"invalid module name {module!r}: expected words of three or more lower-case letters, joined by hyphens"
    if len(module) > (longest := MAX_LABEL_LENGTH if project.manager is None else MAX_MODULE_NAME_LENGTH):
        yield f"module name {module!r} has {len(module)} characters: at most {longest} are possible"
    if project.manager is not None and project.manager.module != module:
        yield f"the manager is declared for module {project.manager.module}, the ModuleTemplate for {module}"
    for release in project.of_kind(ModuleReleaseMeta.KIND):
        if (released := release["spec"].get("moduleName")) != module:
            yield f"the ModuleReleaseMeta is for module {released}, the ModuleTemplate for {module}"


def _versions(project: ModuleProject) -> Iterator[str]:
    template = _template(project)
    version = template.get("version", "")
    component = template.get("descriptor", {}).get("component", {})
    if not VERSION.fullmatch(version):
        yield f"invalid version {version!r}: expected a semantic version such as 1.2.3"
    if component.get("version") != version:
        yield f"the descriptor has version {component.get('version')}, the ModuleTemplate {version}"
    for release in (each["spec"] for each in project.of_kind(ModuleReleaseMeta.KIND)):
        if (name := release.get("ocmComponentName")) is not None and component.get("name") != name:
            yield f"the descriptor names the component {component.get('name')}, the ModuleReleaseMeta {name}"
        offered = [*release.get("channels", ()), release.get("mandatory") or {}]
        if not any(each.get("version") == version for each in offered):
            yield f"no channel of the ModuleReleaseMeta has version {version}"


def _crds(project: ModuleProject) -> Iterator[str]:
    for crd in (each["spec"] for each in project.of_kind("CustomResourceDefinition")):
        for version in crd["versions"]:
            if schema_of(version).get("type") != "object":
                yield f"version {version.get('name')} of {crd['names']['kind']} has no schema"


def _module_crs(project: ModuleProject) -> Iterator[str]:
    schemas = schemas_of(project.of_kind("CustomResourceDefinition"))
    for where, module_cr in project.module_crs():
        api_version, kind = str(module_cr.get("apiVersion")), str(module_cr.get("kind"))
        schema = schemas.get((api_version, kind))
        if schema is None:
            served = " and ".join(f"{kind} of {version}" for version, kind in schemas) or "nothing"
            yield f"{where} is a {kind} of {api_version}; the CRD serves {served}"
        else:
            yield from (f"{where}: {problem}" for problem in violations(module_cr, schema))


def _rendering(project: ModuleProject) -> Iterator[str]:
    for where, module_cr in project.module_crs():
        try:
            first, second = (_rendered(project, module_cr).objects for _ in range(2))
        except SyncFailed as error:
            yield f"{where}: {error.reason}: {error}"
            continue
        if changed := next((each or again for each, again in zip_longest(first, second) if each != again), None):
            what = f"{changed['kind']} {changed['metadata']['name']} is another one in each run"
            yield f"{where}: {what}, and would be written each time: use neither times nor random values"


def _kinds(project: ModuleProject) -> Iterator[str]:
    """Yield what an API server would refuse in the objects of the module, and in the status of its Module CR."""
    schemas = schemas_of(project.of_kind("CustomResourceDefinition"))
    for where, module_cr, rendered in _renderings(project):
        for each in rendered.objects:
            what = f"{where}: {each['kind']} {each['metadata']['name']}"
            yield from (f"{what}: {problem}" for problem in kind_violations(each))
        schema = schemas.get((str(module_cr.get("apiVersion")), str(module_cr.get("kind"))), {})
        status = (schema.get("properties") or {}).get("status") or {}
        required = [each for each in status.get("required") or () if each not in FIELDS]  # Lifecycle Manager's
        fits = {"type": "object", **status, "required": required}
        found = violations(rendered.status, fits, "status") if rendered.status else ()
        yield from (f"{where}: {problem}" for problem in found)


def _rights(project: ModuleProject) -> Iterator[str]:
    if not project.rights() and not _enables_module_config(project):
        return
    rules = [rule for role in project.rights() for rule in role.get("rules") or ()]
    crds = [each["spec"] for each in project.module_crds()]
    needed = {(crd["group"], crd["names"]["plural"], frozenset(READ_VERBS)) for crd in crds}
    for _, _, rendered in _renderings(project):
        for each in rendered.objects:
            needed.add((each["apiVersion"].rpartition("/")[0], each["kind"], frozenset(WRITE_VERBS)))
    if _enables_module_config(project):
        needed |= {(crd["group"], f"{crd['names']['plural']}/status", frozenset({"patch"})) for crd in crds}
    for group, kind, verbs in sorted(needed, key=lambda each: each[:2]):
        if not any(_allows(rule, group, kind, verbs) for rule in rules):
            what = f"{', '.join(sorted(verbs))} {kind} of {group or 'core'}"
            yield f"no ClusterRole in module/skr-role.yaml allows Lifecycle Manager to {what}"


def _policy(project: ModuleProject) -> Iterator[str]:
    module = _template(project).get("moduleName", "")
    for document in project.of_kind(ModulePolicy.KIND):
        if (name := document["metadata"]["name"]) != module:
            yield f"the ModulePolicy is named {name}; its name has to be that of the module, {module}"
            continue
        try:
            policy = msgspec.convert(document, ModulePolicy)
        except msgspec.ValidationError:
            continue  # reported by the check of types
        for where, things in _object_sets(project):
            found = policy_violations(things, ModuleRules(module, policy.spec), default_namespace=names.SKR_NAMESPACE)
            yield from (f"{where}: {violation}" for violation in found)


def _object_sets(project: ModuleProject) -> Iterator[tuple[str, Sequence[KubernetesObject]]]:
    """Yield the objects of the Manifest, and those of each Module CR, each set with its place for messages."""
    yield "the Manifest", [KubernetesObject.of(each, index) for index, each in enumerate(project.objects())]
    for where, _, rendered in _renderings(project):
        yield where, [KubernetesObject.of(each, index) for index, each in enumerate(rendered.objects)]


def _allows(rule: Document, group: str, name: str, verbs: frozenset[str]) -> bool:
    """Tell whether a rule has a right for a kind, or for a resource, which has its name as in roles."""
    singular = name.lower()
    is_kind = singular != name
    plurals = {f"{singular}s", f"{singular}es", f"{singular.removesuffix('y')}ies"} if is_kind else {name}
    plurals |= {"*", "*/status"} if name.endswith("/status") else {"*"}
    granted = rule.get("verbs") or ()
    return (
        bool({group, "*"} & set(rule.get("apiGroups") or ()))
        and bool(plurals & set(rule.get("resources") or ()))
        and (verbs <= set(granted) or "*" in granted)
    )


def _template(project: ModuleProject) -> dict[str, Any]:
    """Return the spec of the ModuleTemplate."""
    spec: dict[str, Any] = project.of_kind(ModuleTemplate.KIND)[0]["spec"]
    return spec


def _enables_module_config(project: ModuleProject) -> bool:
    return any(template.get("spec", {}).get("enableModuleConfig") for template in project.of_kind("ModuleTemplate"))


def _renderings(project: ModuleProject) -> Iterator[tuple[str, Document, RenderedObjects]]:
    """Yield the Module CRs that the manager renders, each with its place; the check of renderings has the others."""
    for where, module_cr in project.module_crs():
        try:
            rendered = _rendered(project, module_cr)
        except SyncFailed:
            continue
        yield where, module_cr, rendered


def _rendered(project: ModuleProject, module_cr: Document) -> RenderedObjects:
    """Return what the manager makes of a Module CR, nothing without a manager. Raises SyncFailed."""
    if project.manager is None:
        return RenderedObjects((), "")
    return asyncio.run(render_module_cr(project.manager, module_cr))


CHECKS: tuple[tuple[str, Callable[[ModuleProject], Iterator[str]]], ...] = (
    ("everything in the folder module is read", _read),
    ("all documents fit the schemas of their kinds", _types),
    ("all parts of the module are present", _parts),
    ("all parts name the same module", _names),
    ("versions and component agree", _versions),
    ("each CRD has a schema", _crds),
    ("default and example Module CR match the CRD", _module_crs),
    ("the manager renders default and example Module CR", _rendering),
    ("objects and status fit the schemas of their kinds", _kinds),
    ("Lifecycle Manager may apply the rendered objects", _rights),
    ("the ModulePolicy allows the objects of the module", _policy),
)
