"""What a Module Manager may do in the control plane: the roles in `rbac.yaml`, for one module."""

from importlib.resources import files
from typing import Any

from kube_runtime import parse_objects
from lifecycle_manager_api import names


def lease_namespace_of(module: str) -> str:
    """Return the namespace of the Leases by which the replicas of a module's manager elect one."""
    return f"module-manager-{module}-leases"


def roles_of(module: str, namespace: str = names.KCP_NAMESPACE) -> tuple[dict[str, Any], ...]:
    """Return the roles of the manager of a module: one where its ModuleConfigs are, then one for its Leases."""
    text = files("kyma_module_manager").joinpath("rbac.yaml").read_text().replace("MODULE", module)
    first, second = (dict(each.document) for each in parse_objects(text))
    return {**first, "metadata": {**first["metadata"], "namespace": namespace}}, second
