"""Guestbook: an application in two stages, which must not start before its database is ready.

The database is the first stage. Lifecycle Manager reports the state of every object that it applied, and runs the
manager's function again when one changes; once the database is ready, the function returns the application as well.

Run it by `kyma-module-manager run kyma_module_manager.samples.guestbook:objects`.
"""

from kyma_module_manager.samples.guestbook.manager import Guestbook, objects

__all__ = ["Guestbook", "objects"]
