"""How long a thread waited for a core: what others on the machine cost it, which no program can help."""

from pathlib import Path


def waited_for_a_core() -> float:
    """Return the seconds that this thread was ready to run and had no core, since its start."""
    return int(Path("/proc/thread-self/schedstat").read_text().split()[1]) / 1e9
