"""What the plan for the status of a Module CR is decided on."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from lifecycle_manager.contract.verdict import Verdict
from lifecycle_manager.module_cr_status.schema import StatusSchema
from lifecycle_manager.module_cr_status.status import Event
from lifecycle_manager_api import ObjectReference


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One Module CR.

    - `written`: the fields that its status has from the Lifecycle Manager; None as long as nobody has read it
    - `schema`: the fields that its kind has; None until it is read
    - `unsettled_since`: the monotonic time since which a change is on its way
    - `last_event`, `last_event_at`: the last Event, and its monotonic time
    - `refused`: the fields that the API server refused last
    - `module_status_refused`: those of the Module Manager do not fit
    - `is_left_alone`: an operator in the SKR writes these fields
    - `is_gone`: there is no such object in the SKR, or no such kind
    """

    reference: ObjectReference | None
    verdict: Verdict
    now: datetime
    seconds: float
    written: Mapping[str, Any] | None = None
    schema: StatusSchema | None = None
    unsettled_since: float | None = None
    last_event: Event | None = None
    last_event_at: float = 0.0
    refused: Mapping[str, Any] | None = None
    module_status_refused: bool = False
    is_left_alone: bool = False
    is_gone: bool = False
