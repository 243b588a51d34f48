"""What the plan of a module's configuration is decided on: the Module CRs in the SKR, and the ModuleConfigs in KCP."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from annotated_types import Ge

from lifecycle_manager.contract.options import Count, option
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_config.status import SyncedCondition
from lifecycle_manager_api import ModuleConfig
from lifecycle_manager_api import ObjectReference as ResourceReference


@dataclass(frozen=True, slots=True)
class Quota:
    """How many Module CRs of one module in one SKR become ModuleConfigs, and how many bytes of text they have."""

    max_objects: Count = option(
        200, "max-module-crs", "maximum of Module CRs of one module that are synchronized from an SKR"
    )
    max_bytes: Annotated[int, Ge(1024)] = option(
        4 * 1024 * 1024,
        "max-module-crs-bytes",
        "maximum of bytes of their texts; what was synchronized before stays",
    )


@dataclass(frozen=True, slots=True)
class ModuleCr:
    """A Module CR in the SKR: its identity, and its text or the `problem` for which it has none.

    Of one that `exceeds_quota` the size of the text is known from before, and it was not made again.
    """

    source: ObjectReference
    reference: ResourceReference
    created: str = ""
    is_deleting: bool = False
    text: str | None = None
    problem: SyncedCondition | None = None
    exceeds_quota: bool = False

    @property
    def is_unread(self) -> bool:
        """Whether there is neither a text nor a reason for it."""
        return self.text is None and self.problem is None and not self.is_deleting and not self.exceeds_quota


@dataclass(frozen=True, slots=True)
class Reading:
    """What was read from the SKR: `found` by reference, None for an object that does not exist.

    `default` is the default Module CR. `complete` tells whether every Module CR was read, or only some.
    """

    default: ObjectReference | None
    found: Mapping[ObjectReference, ModuleCr | None]
    complete: bool


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The configuration of one module of a Kyma, in the namespace of the module.

    - `existing`: its ModuleConfigs there
    - `taken`: names that ModuleConfigs of other modules or Kymas have, of those that this module would use
    - `reading`: its Module CRs in the SKR; None where the module has no configuration, or the SKR can't be read
    - `superseded`: Module CRs of which a later version was read before, so that this is an answer from the past
    - `unreadable`: the condition that says why nothing could be read
    """

    kyma: str
    module: str
    namespace: str
    existing: tuple[ModuleConfig, ...]
    reading: Reading | None
    unreadable: SyncedCondition | None = None
    quota: Quota = Quota()
    taken: frozenset[str] = frozenset()
    superseded: frozenset[ObjectReference] = frozenset()
