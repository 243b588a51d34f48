"""Who may write for which module: an admission policy that asks the API server's authorizer, and its binding."""

from importlib.resources import files

MODULE_AUTHORIZATION = "module-authorization.operator.kyma-project.io"
"""The name of the policy and of the binding."""


def module_authorization_as_yaml() -> str:
    """Return the policy, its binding, and the role of Kubernetes' own controllers, as one YAML text."""
    return files("lifecycle_manager_api").joinpath("module-authorization.yaml").read_text()
