"""Kymas that tests have beside the one of the demo."""

from contextlib import suppress

from kube_runtime import NotFound, NotServed
from kyma_demo.environment import Environment
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api.names import KCP_NAMESPACE
from tests.waiting import eventually, is_gone


async def remove_kyma(environment: Environment, name: str) -> None:
    """Remove what is left of a Kyma, its access Secret first: the deletion proceeds without the cluster."""
    for resource, left in ((SECRETS, f"kubeconfig-{name}"), (KYMAS, name)):
        with suppress(NotFound, NotServed):
            await environment.kcp.delete(resource, left, KCP_NAMESPACE)
    await eventually(lambda: is_gone(environment.kcp.get(KYMAS, name, KCP_NAMESPACE)), what=f"Kyma {name} is gone")
