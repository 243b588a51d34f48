"""What a control plane has before the Lifecycle Manager runs: its namespaces, and the CRDs.

Without them every part of the process would fail by itself, again and again.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable

from kube_runtime import Client, Forbidden, KindUnknown, KubeError, NotFound
from lifecycle_manager.contract.resources import NAMESPACES
from lifecycle_manager_api.conditions import listed
from lifecycle_manager_api.crds import all_crds

SHOWN = 3  # the rest is missing for the same reason
ANSWER_SECONDS = 5.0


class NotInstalled(Exception):
    """The control plane lacks what an installation brings; the text says what, and what to do."""


async def require_installed(kcp: Client, namespaces: Iterable[str]) -> None:
    """Raises NotInstalled where the API server says that a namespace or a kind is not there.

    What it does not answer, or this identity may not read, is left to those who need it: they try again.
    """
    try:
        async with asyncio.timeout(ANSWER_SECONDS):
            missing = [each async for each in _missing(kcp, namespaces)]
    except (KubeError, TimeoutError):
        return
    if missing:
        raise NotInstalled(
            f"{kcp.server} has no {listed(missing, SHOWN)}: install the chart lifecycle-manager there, which brings "
            "them (for a test kubectl create namespace, and klm crds --kubeconfig FILE), choose another control plane "
            "with --kubeconfig, or begin with klm playground"
        )


async def _missing(kcp: Client, namespaces: Iterable[str]) -> AsyncIterator[str]:
    for name in dict.fromkeys(namespaces):
        try:
            await kcp.get(NAMESPACES, name)
        except NotFound:
            yield f"namespace {name}"
        except Forbidden:
            continue  # as in its Pod: that runs in the namespace
    for crd in all_crds():
        spec = crd["spec"]
        version = next(each["name"] for each in spec["versions"] if each["storage"])
        try:
            await kcp.mapper.resource(f"{spec['group']}/{version}", spec["names"]["kind"])
        except KindUnknown:
            yield f"CRD {crd['metadata']['name']}"
