"""The status of a Module CR in the user's cluster: whether the change is in force, and if not, what is wrong.

The user of a module edits a Module CR in the SKR; all that follows happens in KCP and in objects that the user may not
know. `contract.verdict` says what counts of it; this domain writes it where the user asked, by server-side apply with
a field manager of its own, and never over the fields of an operator that writes the status itself.

`controller` says what triggers it, and what a reconcile does; `rules` when what is written; `schema` what fits into the
status of a kind.
"""

from lifecycle_manager.module_cr_status.controller import setup
from lifecycle_manager.options.configuration import ModuleCrStatusSettings

__all__ = ["ModuleCrStatusSettings", "setup"]
