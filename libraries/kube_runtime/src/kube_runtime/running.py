"""Runs controllers as a program: until SIGTERM or Ctrl-C, and with logs on the standard error."""

import asyncio
import logging
import signal
from collections.abc import Callable, Iterable
from pathlib import Path

from kube_runtime.client.client import Client
from kube_runtime.manager import Manager, ManagerOptions
from kube_runtime.sharding import ALONE, Sharding


def run(
    setup: Callable[[Manager], object],
    *,
    name: str,
    namespace: str | None = None,
    kubeconfig: Path | None = None,
    context: str | None = None,
    probes: Iterable[tuple[str, int]] = (),
    sharding: Callable[[Client], Sharding] = lambda _: ALONE,
) -> None:
    """Run the controllers that a function declares, until SIGTERM or Ctrl-C; a second signal ends at once.

    - `name`, `namespace`, `probes`: as of `Manager` and its options
    - `kubeconfig`, `context`: those of kubectl where they are not given; in a Pod, its ServiceAccount
    - `sharding`: makes the sharding of several replicas, such as a LeaseSharding

    Raises KubeconfigInvalid, AddressUnusable, and TimeoutError where the first lists don't come in time.
    """
    if not logging.getLogger().handlers:
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")

    async def main() -> None:
        stopping = until_signal()
        async with await Client.from_environment(kubeconfig, context=context) as client:
            manager = Manager(
                client, ManagerOptions(name=name, probes=tuple(probes)), namespace=namespace, sharding=sharding(client)
            )
            setup(manager)
            await manager.run(stopping)

    asyncio.run(main())


def until_signal() -> asyncio.Event:
    """Return the event that the first SIGTERM or Ctrl-C sets; the next one does what it does by itself."""
    stopping, loop = asyncio.Event(), asyncio.get_running_loop()
    signals = (signal.SIGINT, signal.SIGTERM)

    def stop() -> None:
        stopping.set()
        for number in signals:
            loop.remove_signal_handler(number)

    for number in signals:
        loop.add_signal_handler(number, stop)
    return stopping
