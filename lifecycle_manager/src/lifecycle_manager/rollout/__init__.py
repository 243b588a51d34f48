"""When the modules of the fleet may change: the spread of releases over time, and maintenance windows.

`schedule` returns the timing of this moment, by which a Kyma's modules are resolved; `maintenance` reads the policy.
"""

from typing import TYPE_CHECKING

from kube_runtime.lazy import lazy

if TYPE_CHECKING:
    from lifecycle_manager.rollout.schedule import Schedule, Timing
else:
    __getattr__ = lazy(__name__, {"schedule": "Schedule Timing"})

__all__ = ["Schedule", "Timing"]
