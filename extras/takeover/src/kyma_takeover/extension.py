"""What the service does where the Lifecycle Manager in Go has, or had, a part of its control plane."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from kyma_takeover.settings import TakeoverSettings
from lifecycle_manager.contract.former import FormerMarks, OptionsByKind, Takeover
from lifecycle_manager.options.watcher import IstioSettings

if TYPE_CHECKING:
    from kube_runtime import Client, Manager, Sharding
    from kyma_certs import CAs
    from lifecycle_manager_api import Kyma


class TakeoverFromGo(Takeover):
    """Imports late what `klm run --help` does not need."""

    settings = (TakeoverSettings,)

    def marks(self) -> FormerMarks:
        from kyma_takeover.marks import MARKS

        return MARKS

    def arguments(self, given: Sequence[str]) -> tuple[list[str], list[str]]:
        from kyma_takeover.flags import adapted

        return adapted(given)

    def objections(self, options: OptionsByKind) -> Iterator[str]:
        if options[IstioSettings].enabled and options[TakeoverSettings].kyma_selector:
            yield "with kyma-selector the former version routes events: drop watcher-virtual-services"

    def sharding(self, options: OptionsByKind, replicas: "Sharding") -> "Sharding":
        """Return how the Kymas are shared: with the former version, or while that is kept from working."""
        from kyma_takeover.lease import WholeFleet
        from kyma_takeover.split import SelectedKymas

        labels = options[TakeoverSettings].labels
        return SelectedKymas(replicas, labels) if labels else WholeFleet(replicas)

    def setup(self, manager: "Manager", kcp: "Client") -> "Callable[[Kyma], bool] | None":
        from kyma_takeover import lease
        from kyma_takeover.split import SelectedKymas

        if not isinstance(manager.sharding, SelectedKymas):
            lease.setup(manager, kcp)
            return None
        manager.sharding.follow(manager)
        return manager.sharding.selects

    async def find_cas(self, kcp: "Client", namespace: str) -> "CAs | None":
        from kyma_takeover.certificates import find_former_cas

        return await find_former_cas(kcp, namespace)


FROM_GO = TakeoverFromGo()
