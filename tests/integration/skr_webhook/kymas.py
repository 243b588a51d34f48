"""Kymas whose certificates are stored: an object whose owner does not exist is garbage collected."""

import uuid
from contextlib import suppress

from kube_runtime import AlreadyExists, Client
from lifecycle_manager.contract.resources import KYMAS, NAMESPACES
from lifecycle_manager.process.crd_installation import apply_crds
from lifecycle_manager_api import Kyma, names


async def register(client: Client, name: str) -> Kyma:
    """Create a Kyma in KCP, with a name that begins with this one."""
    await have_control_plane(client)
    await apply_crds(client)
    kyma = {"metadata": {"name": f"{name}-{uuid.uuid4().hex[:6]}"}, "spec": {"channel": "regular"}}
    return await client.create(KYMAS, kyma, names.KCP_NAMESPACE, field_manager="test")


async def have_control_plane(client: Client) -> None:
    """Create the namespace of KCP where it does not exist."""
    with suppress(AlreadyExists):
        await client.create(NAMESPACES, {"metadata": {"name": names.KCP_NAMESPACE}}, field_manager="test")
