"""Which Kymas an operator asked for, by state, region, module, version and channel: for `klm` and the fleet page."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


class ModuleOfKyma(Protocol):
    """A module of a Kyma, as its status lists it."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def version(self) -> str:
        """The version that is installed."""
        ...

    @property
    def channel(self) -> str:
        """The channel that it follows."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KymaSelection:
    """What was asked for; an empty field selects everything."""

    state: str = ""
    region: str = ""
    module: str = ""
    version: str = ""
    channel: str = ""

    def selects(self, *, state: str, region: str, channel: str, modules: Iterable[ModuleOfKyma]) -> bool:
        """Tell whether a Kyma was asked for. Its own channel counts, or else that of one of its modules."""
        if (self.state and self.state != state) or (self.region and self.region != region):
            return False
        if self.channel == channel and not (self.module or self.version):
            return True
        return not (self.module or self.version or self.channel) or any(map(self.selects_module, modules))

    def selects_module(self, module: ModuleOfKyma) -> bool:
        """Tell whether a module was asked for: by name, version and channel."""
        return (
            (not self.module or module.name == self.module)
            and (not self.version or module.version == self.version)
            and (not self.channel or module.channel == self.channel)
        )
