"""What only the takeover of a control plane from the Lifecycle Manager in Go needs (docs/migration.md).

- `former`: the marks of its objects, used by the domains where they decide whose an object is
- `certificates`: its CA, which is adopted
- `lease`: nothing works here while the former version does
- `flags`, `policy_file`: its command line and its maintenance policy
- `watchers`: whose Watchers are still its, and so do not sign their events

A control plane that it never managed needs none of this: to remove the folder, remove what imports it.
"""

from lifecycle_manager.takeover import lease

__all__ = ["lease"]
