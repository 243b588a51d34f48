"""Where the former version expects the maintenance policy, without an option for it."""

from pathlib import Path

CONVENTIONAL = Path("/etc/maintenance-policy/policy.json")


def find_policy(given: Path | None, conventional: Path = CONVENTIONAL) -> Path | None:
    """Return the file that an option names, else the one at the conventional place, if there is one."""
    return given or (conventional if conventional.is_file() else None)
