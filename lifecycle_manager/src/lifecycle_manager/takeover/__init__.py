"""What only the takeover of a control plane from the Lifecycle Manager in Go needs (docs/migration.md).

- `former`: the marks of its objects, used by the domains where they decide whose an object is
- `certificates`: its CA, which is adopted
- `lease`: nothing works here while the former version does
- `split`: unless each has its own Kymas
- `flags`, `policy_file`: its command line and its maintenance policy
- `watchers`: whose Watchers are still its, and so do not sign their events

A control plane that it never managed needs none of this: to remove the folder, remove what imports it.
"""

from kube_runtime import Client, Manager
from lifecycle_manager.takeover import lease
from lifecycle_manager.takeover.settings import TakeoverSettings
from lifecycle_manager.takeover.split import SelectedKymas, split_of

__all__ = ["SelectedKymas", "TakeoverSettings", "setup"]


def setup(manager: Manager, kcp: Client) -> None:
    """Keep both versions from working on the same Kymas. To be called first."""
    split = split_of(manager.sharding)
    if split is None:
        lease.setup(manager, kcp)
    else:
        split.follow(manager)
