"""`python -m kyma_diagnostics`: asks a running program, where `klm debug` is not installed."""

import argparse
import sys
from pathlib import Path

from kyma_diagnostics.debug_client import COMMANDS, DebugFailed, ask, socket_of_environment


def main() -> int:
    """Print the answer of the program."""
    parser = argparse.ArgumentParser(prog="python -m kyma_diagnostics", description="Ask a running program.")
    parser.add_argument("command", choices=COMMANDS)
    parser.add_argument("argument", nargs="?", default="", help="the new level, for log-level")
    parser.add_argument("--socket", type=Path, default=socket_of_environment(), help="its debug socket")
    given = parser.parse_args()
    try:
        sys.stdout.write(ask(given.socket, f"{given.command} {given.argument}".strip()))
    except DebugFailed as error:
        sys.stderr.write(f"{error}\n")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
