"""What only the takeover of a control plane from the Lifecycle Manager in Go needs (docs/migration.md).

- `certificates`: its CA, which is adopted
- `lease`: nothing works here while the former version does
- `split`: unless each has its own Kymas
- `flags`: its command line

A control plane that it never managed needs none of this. Only `app`, `settings` and `command_line` import it. The
marks of its objects, by which domains decide whose an object is, are in `contract.former`; `klm adopt` is a command of
`kyma_fleet`.
"""

from typing import TYPE_CHECKING

from lifecycle_manager.contract.lazy import lazy

if TYPE_CHECKING:
    from lifecycle_manager.takeover.certificates import find_former_cas
    from lifecycle_manager.takeover.settings import TakeoverSettings
    from lifecycle_manager.takeover.split import SelectedKymas
    from lifecycle_manager.takeover.start import setup
else:
    __getattr__ = lazy(
        __name__, certificates="find_former_cas", settings="TakeoverSettings", split="SelectedKymas", start="setup"
    )

__all__ = ["SelectedKymas", "TakeoverSettings", "find_former_cas", "setup"]
