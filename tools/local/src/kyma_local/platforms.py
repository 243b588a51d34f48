"""The systems and machines on which local clusters run, by the names that Go and releases use."""

import platform
import sys
from typing import NamedTuple

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


class Platform(NamedTuple):
    """A system and a machine, such as darwin and arm64."""

    system: str
    machine: str

    @classmethod
    def current(cls) -> "Platform":
        """Return that of this process."""
        return cls.named(sys.platform, platform.machine())

    @classmethod
    def named(cls, system: str, machine: str) -> "Platform":
        """Return a platform by the names that Python has for it."""
        return cls(system, MACHINES.get(machine, machine.lower()))

    def __str__(self) -> str:
        """Return it as releases write it."""
        return f"{self.system}-{self.machine}"
