"""When the modules of the fleet may change: the spread of releases over time, and maintenance windows.

`schedule` decides whether a Kyma may change now and when it may next, `maintenance` reads the maintenance policy.
"""

from lifecycle_manager.rollout.schedule import Schedule

__all__ = ["Schedule"]
