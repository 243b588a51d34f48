"""What the kinds are named that `klm get` lists, and where an API server has them: all that a completion imports."""

from collections.abc import Mapping

SHORT_NAMES: Mapping[str, tuple[str, ...]] = {
    "kymas": ("kyma", "ky"),
    "modules": ("module",),
    "releases": ("release", "modulereleasemetas", "mrm"),
    "manifests": ("manifest", "mf"),
    "configs": ("config", "moduleconfigs", "moduleconfig", "mc"),
    "syncresources": ("syncresource", "sr"),
    "rollouts": ("rollout", "modulerollouts", "modulerollout", "mro"),
}
_API = "/apis/operator.kyma-project.io"
PATHS: Mapping[str, str] = {
    "kymas": f"{_API}/v1beta2/namespaces/kcp-system/kymas",
    "releases": f"{_API}/v1beta2/namespaces/kcp-system/modulereleasemetas",
    "manifests": f"{_API}/v1beta2/namespaces/kcp-system/manifests",
    "configs": f"{_API}/v1alpha1/moduleconfigs",
    "syncresources": f"{_API}/v1alpha1/syncresources",
    "rollouts": f"{_API}/v1alpha1/namespaces/kcp-system/modulerollouts",
}
"""Where the objects of a kind are. What is named as a module is a release."""


def full_name(name: str) -> str | None:
    """Return the name of the kind that an operator named, by its plural, singular or short name."""
    wanted = name.lower()
    return next((each for each, short in SHORT_NAMES.items() if wanted == each or wanted in short), None)
