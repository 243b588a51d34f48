"""The checks of a module of modulectl, each a function from the module to the problems that it finds."""

from collections.abc import Callable, Iterator

from kyma_module_manager.project.kinds import kind_violations
from kyma_module_manager.project.modulectl.component import module_template
from kyma_module_manager.project.modulectl.images import WORKLOADS, image_in, image_problems, used_images
from kyma_module_manager.project.modulectl.module import ModulectlModule
from kyma_module_manager.project.reading import twice
from kyma_module_manager.project.schema import schemas_of, violations
from kyma_module_manager.project.status import status_notices
from lifecycle_manager_api import ModuleTemplate
from lifecycle_manager_api.crds import all_crds


def module_notices(module: ModulectlModule) -> Iterator[str]:
    """Yield what the author of a valid module should know about it."""
    yield from module.warnings
    yield from _version(module)
    for field in module.config.ignored:
        where = "; it is spec.mandatory of the ModuleReleaseMeta" if field == "mandatory" else ""
        yield f"the field {field} is ignored, as modulectl does{where}"
    for notice in status_notices(module.module_crds):
        yield f"with a manager in the control plane: {notice}"


def _objects(module: ModulectlModule) -> Iterator[str]:
    yield from twice((f"{module.manifest.name}, document {each.index}", each) for each in module.objects)
    for each in module.objects:
        if each.api_version.startswith("kustomize.config.k8s.io/"):
            yield f"{each} is no object: render it, such as kubectl kustomize FOLDER > {module.manifest.name}"
        yield from (f"{each}: {problem}" for problem in kind_violations(each.document, complete=True))


def _default(module: ModulectlModule) -> Iterator[str]:
    if module.default_cr is None:
        return
    schema = schemas_of(module.crds).get((module.default_cr["apiVersion"], module.default_cr["kind"]))
    if schema is None:
        yield f"no CRD of the manifest serves {module.default_cr['kind']} of {module.default_cr['apiVersion']}"
    else:
        yield from violations(module.default_cr, schema)


def _images(module: ModulectlModule) -> Iterator[str]:
    yield from dict.fromkeys(image_problems(module.objects))


def _version(module: ModulectlModule) -> Iterator[str]:
    """Yield whether no container of the manager has an image of the module's version, which modulectl allows."""
    if (manager := module.config.manager) is None:
        return
    found = [each for each in module.objects if (each.kind, each.name) == (manager.kind, manager.name)]
    images = [image_in(text) for each, text, is_container in used_images(found) if is_container]
    if manager.kind not in WORKLOADS or not found:
        yield f"the manager {manager.kind} {manager.name} is no Deployment or StatefulSet of the manifest"
    elif not any(image is not None and image.tag == module.config.version for image in images):
        tags = ", ".join(image.tag for image in images if image is not None) or "none"
        yield f"no image of the manager {manager.name} has the tag {module.config.version}; found {tags}"


def _template(module: ModulectlModule) -> Iterator[str]:
    template = module_template(module)
    yield from violations(template, schemas_of(all_crds())[template["apiVersion"], ModuleTemplate.KIND])


MODULECTL_CHECKS: tuple[tuple[str, Callable[[ModulectlModule], Iterator[str]]], ...] = (
    ("all objects of the manifest fit the schemas of their kinds", _objects),
    ("the default Module CR matches its CRD", _default),
    ("each image has a tag of a version, or a digest", _images),
    ("the ModuleTemplate fits its schema", _template),
)
