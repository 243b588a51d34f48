"""The ModulePolicy that a module needs for its objects, as operators review it."""

from pathlib import Path

from kube_runtime import ManifestInvalid, dump_yaml, parse_manifest
from kyma_module_manager.exceptions import DeclarationError
from lifecycle_manager_api import ModulePolicy, ModulePolicySpec, ObjectMeta, as_document, names
from lifecycle_manager_api.needed_policy import needed_policy

REVIEW = (
    "# What the module {module} needs for these objects. Whatever is listed here, its team may have in every cluster:\n"
    "# review each line before you apply it, above all ClusterRoles, webhooks, privileged Pods, and * alone.\n"
)


def derived_policy(file: Path, module: str) -> str:
    """Return the ModulePolicy that a module needs for the objects in a file, as YAML. Raises DeclarationError."""
    try:
        objects = parse_manifest(file.read_text()).objects
    except OSError as error:
        raise DeclarationError(f"{file} can't be read: {error.strerror}") from None
    except (ManifestInvalid, UnicodeDecodeError) as error:
        raise DeclarationError(f"{file}: {error}") from None
    spec = needed_policy(objects, module, default_namespace=names.SKR_NAMESPACE)
    return REVIEW.format(module=module) + policy_as_yaml(module, spec)


def policy_as_yaml(module: str, spec: ModulePolicySpec) -> str:
    policy = ModulePolicy(
        api_version=f"{ModulePolicy.GROUP}/{ModulePolicy.VERSION}",
        kind=ModulePolicy.KIND,
        metadata=ObjectMeta(name=module, namespace=names.KCP_NAMESPACE),
        spec=spec,
    )
    return dump_yaml(as_document(policy))
