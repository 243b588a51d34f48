"""Kymas whose certificates are stored: what belongs to one that there is not is collected as garbage."""

import uuid
from contextlib import suppress

from kube_runtime import AlreadyExists, Client
from lifecycle_manager.crd_installation import apply_crds
from lifecycle_manager.resources import KYMAS, NAMESPACES
from lifecycle_manager_api import Kyma, names


async def register(client: Client, name: str) -> Kyma:
    """Have a Kyma in the control plane; its name begins with this one."""
    await have_control_plane(client)
    await apply_crds(client)
    kyma = {"metadata": {"name": f"{name}-{uuid.uuid4().hex[:6]}"}, "spec": {"channel": "regular"}}
    return await client.create(KYMAS, kyma, names.KCP_NAMESPACE, field_manager="test")


async def have_control_plane(client: Client) -> None:
    """Have the namespace of the control plane."""
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": names.KCP_NAMESPACE}}, field_manager="test")
