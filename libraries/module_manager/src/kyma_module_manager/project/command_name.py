"""How the commands for modules are called: as `klm module`, or without klm by the name of the SDK."""

import sys
from pathlib import Path


def module_command() -> str:
    """Return the words before `new`, `validate` and the others."""
    return f"{'klm' if Path(sys.argv[0]).name == 'klm' else 'kyma-module-manager'} module"
