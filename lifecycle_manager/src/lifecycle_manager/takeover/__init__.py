"""What only the takeover of a control plane from the Lifecycle Manager in Go needs (docs/migration.md).

- `certificates`: its CA, which is adopted
- `lease`: nothing works here while the former version does
- `split`: unless each has its own Kymas
- `flags`: its command line

A control plane that it never managed needs none of this. Only `app`, `settings` and `command_line` import it. The
marks of its objects, by which domains decide whose an object is, are in `contract.former`; `klm adopt` is a command of
`kyma_fleet`.
"""

from collections.abc import Callable

from kube_runtime import Client, Manager
from lifecycle_manager.takeover import lease
from lifecycle_manager.takeover.certificates import find_former_cas
from lifecycle_manager.takeover.settings import TakeoverSettings
from lifecycle_manager.takeover.split import SelectedKymas
from lifecycle_manager_api import Kyma

__all__ = ["SelectedKymas", "TakeoverSettings", "find_former_cas", "setup"]


def setup(manager: Manager, kcp: Client) -> Callable[[Kyma], bool] | None:
    """Keep both versions from working on the same Kymas. To be called first.

    Returns which Kymas are this version's; None where all are.
    """
    if not isinstance(manager.sharding, SelectedKymas):
        lease.setup(manager, kcp)
        return None
    manager.sharding.follow(manager)
    return manager.sharding.selects
