"""Writes one condition into the status of a Kyma, for what looks after a part of its cluster.

Each part is a field manager of its own, so that the conditions of a Kyma can be written side by side.
"""

from datetime import datetime

from kube_runtime import Client
from lifecycle_manager.kcp_writes import write_status
from lifecycle_manager.resources import KYMAS
from lifecycle_manager_api import ConditionStatus, Kyma
from lifecycle_manager_api.conditions import find, set_conditions


async def write_condition(
    kcp: Client,
    kyma: Kyma,
    kind: str,
    said: tuple[ConditionStatus, str, str],
    *,
    now: datetime,
    field_manager: str,
) -> bool:
    """Have a Kyma's condition say a status, a reason and a message. Returns whether that is news. Raises KubeError."""
    merged = set_conditions(kyma.status.conditions, [(kind, *said)], kyma.metadata.generation, now)
    if merged == kyma.status.conditions:
        return False
    own = {"conditions": [find(merged, kind)]}
    await write_status(kcp, KYMAS, kyma.metadata, own, field_manager=field_manager)
    return True
