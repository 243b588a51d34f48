"""Errors as one line for an operator: what is wrong, and what to do."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches

from kube_runtime import (
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Gone,
    KubeconfigInvalid,
    NotFound,
    NotServed,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
)
from kyma_fleet.text import plain


class Problem(Exception):
    """What an operator asked for can't be done; the text says why and what to do."""


class NoControlPlane(Problem):
    """The cluster is not the one that manages others."""


_REGISTRAR = "klm-registrar to join and leave"
SECRETS = (
    f"access to clusters needs the ClusterRole klm-skr-access, or {_REGISTRAR}, bound in the namespace of the access "
    "Secrets"
)
ROLES = (
    "an administrator can bind you to the ClusterRole klm-viewer, to klm-operator for commands that write, or to "
    f"{_REGISTRAR}"
)
_CHOOSE = "choose another kubeconfig with {0}kubeconfig or {0}context"
NO_KIND = f"this may not be a control plane: {_CHOOSE}; klm crds --kubeconfig FILE installs the CRDs"
ADVICE: Mapping[type[Exception], str] = {
    NoControlPlane: _CHOOSE,
    NotFound: "klm get lists what there is",
    NotServed: NO_KIND,
    KubeconfigInvalid: "set KUBECONFIG, or use {0}kubeconfig FILE",
    Unauthorized: f"log in again, or {_CHOOSE}",
    Forbidden: ROLES,
    Gone: "the list changed while it was read: try again",
    ClusterUnreachable: f"check the network, or {_CHOOSE}",
    **dict.fromkeys((Conflict, TooManyRequests, ServerUnavailable), "try again"),
}


def meant(wanted: str, known: Iterable[str], what: str = "") -> str:
    """Return the question whether the closest of some names was meant, to be added to a text; empty for none."""
    close = get_close_matches(wanted, list(known), n=1)
    return f"; did you mean {what}{close[0]}?" if close else ""


def unknown_module(module: str, known: Iterable[str]) -> Problem:
    """Return the problem that no release has a module."""
    close = meant(module, known) or "; klm get releases lists those that have one"
    return Problem(f"module {module} has no ModuleReleaseMeta{close}")


def line_for(error: Exception, *, options: str = "--") -> str:
    """Return the line that is printed for an error; `options` is how those begin that choose the API server."""
    advice = _advice(error).format(options)
    return plain(f"{error}; {advice}" if advice else str(error))


def _advice(error: Exception) -> str:
    if isinstance(error, Forbidden) and error.is_denied:
        return ""
    if isinstance(error, Forbidden) and error.details.get("kind") == "secrets":
        return SECRETS
    return next((advice for kind, advice in ADVICE.items() if isinstance(error, kind)), "")
