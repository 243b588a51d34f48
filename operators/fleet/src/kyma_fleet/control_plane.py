"""Whether a cluster is a control plane at all, and which name somebody may have meant."""

from typing import Any

from kube_runtime import Client, Forbidden, KubeError, NotFound, NotServed, Resource
from kyma_fleet.listing.kinds import KINDS
from kyma_fleet.problems import NoControlPlane, Problem, meant
from lifecycle_manager.contract.resources import NAMESPACES
from lifecycle_manager_api import Kyma, names

NAMES_COMPARED = 500


async def require_control_plane(kcp: Client) -> None:
    """Raise Problem for a cluster without the namespace of a control plane, such as one of a user; KubeError."""
    try:
        await kcp.get(NAMESPACES, names.KCP_NAMESPACE)
    except Forbidden:
        return  # as klm-viewer: whoever may read Kymas in a control plane need not read its namespaces
    except NotFound:
        raise NoControlPlane(f"this is no control plane: it has no namespace {names.KCP_NAMESPACE}") from None


def not_found(resource: Resource[Any], name: str) -> NotFound:
    """Return the error of an API server for an object that a list did not have."""
    kind = resource.plural
    return NotFound(404, "NotFound", f'{kind}.{resource.group} "{name}" not found', {"name": name, "kind": kind})


async def with_close_name(kcp: Client, error: NotFound | NotServed) -> KubeError | Problem:
    """Return an error about an object that is not there as one that also names the object whose name is the closest.

    Raises Problem where a kind is not there, and the cluster is no control plane.
    """
    wanted = error.details.get("name")
    if not wanted:
        await require_control_plane(kcp)
    kind = next((each for each in KINDS if each.resource.plural == error.details.get("kind", "kymas")), None)
    if not wanted or kind is None:
        return error
    page = await anext(kcp.pages(kind.resource, kind.namespace, page_size=NAMES_COMPARED))
    question = meant(wanted, (each.metadata.name for each in page.items))
    return Problem(f"{error}{question}") if question else error


def require_module(kyma: Kyma, module: str) -> None:
    """Raise Problem where nobody chose a module in a cluster, and none of that name is left there."""
    known = sorted({each.name for each in kyma.spec.modules} | {each.name for each in kyma.status.modules})
    if module not in known:
        has = ", ".join(known) or "none"
        raise Problem(f"Kyma {kyma.metadata.name} has no module {module}, but: {has}{meant(module, known)}")
