"""SyncResource: what a Module Manager wants in a cluster."""

from typing import ClassVar

from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import Condition
from lifecycle_manager_api.kyma import LastOperation
from lifecycle_manager_api.meta import ObjectMeta, Struct
from lifecycle_manager_api.state import State


class SyncedObject(Struct, frozen=True, kw_only=True):
    """An object that was brought to the cluster, and how it is."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str
    state: State = State.EMPTY
    message: str = ""


class SyncResourceSpec(Struct, frozen=True, kw_only=True):
    """What is wanted, as text."""

    kyma: str
    module: str
    resource: str
    prune: bool = True


class SyncResourceStatus(Struct, frozen=True, kw_only=True):
    """How it is."""

    state: State = State.EMPTY
    conditions: tuple[Condition, ...] = ()
    last_operation: LastOperation | None = None
    observed_generation: int | None = None
    synced: tuple[SyncedObject, ...] = ()


class SyncResource(Struct, frozen=True, kw_only=True):
    """SyncResource: what a Module Manager wants in a cluster."""

    GROUP: ClassVar[str] = names.GROUP
    VERSION: ClassVar[str] = "v1alpha1"
    KIND: ClassVar[str] = "SyncResource"
    PLURAL: ClassVar[str] = "syncresources"
    NAMESPACED: ClassVar[bool] = True

    api_version: str = f"{names.GROUP}/v1alpha1"
    kind: str = "SyncResource"
    metadata: ObjectMeta = ObjectMeta()
    spec: SyncResourceSpec
    status: SyncResourceStatus = SyncResourceStatus()
