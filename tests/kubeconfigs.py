"""Kubeconfigs of tests, as documents."""

from collections.abc import Mapping
from typing import Any

SECRET = "very-secret-token"


def kubeconfig(user: Mapping[str, Any] | None = None, /, **cluster: Any) -> dict[str, Any]:
    """Return a kubeconfig of one user, who has a token unless another one is given, for one cluster."""
    return {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://k.example:6443", **cluster}}],
        "users": [{"name": "u", "user": {"token": SECRET} if user is None else dict(user)}],
    }
