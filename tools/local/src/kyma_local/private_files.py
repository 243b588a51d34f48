"""Files with credentials: only their owner can ever read them."""

import os
from pathlib import Path


def write_private(path: Path, text: str) -> Path:
    """Write a text to a file that only the owner can read; return its path."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w") as file:
        os.fchmod(descriptor, 0o600)  # one that exists keeps its mode
        file.truncate()
        file.write(text)
    return path
