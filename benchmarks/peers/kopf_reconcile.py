"""The peer's controller: handlers of kopf.

It is given what makes it faster: uvloop, no Events, no log of what goes well, and for the ConfigMap, for which kopf has
no client, the runtime's own.
"""

import argparse
import os
from pathlib import Path
from typing import Any

import kopf
import uvloop

from benchmarks.peers.things import CONFIG_MAPS, GROUP, UNLIMITED
from kube_runtime import Client


def main() -> None:
    """Give each Thing a ConfigMap and a status, until killed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kubeconfig", required=True)
    parser.add_argument("--namespace", required=True)
    options = parser.parse_args()
    os.environ["KUBECONFIG"] = options.kubeconfig
    kopf.configure(quiet=True)
    uvloop.run(operate(Path(options.kubeconfig), options.namespace))


async def operate(kubeconfig: Path, namespace: str) -> None:
    """Run the operator."""
    registry = kopf.OperatorRegistry()
    kopf.on.login(registry=registry)(kopf.login_with_kubeconfig)
    settings = kopf.OperatorSettings()
    settings.posting.enabled = False
    async with await Client.from_kubeconfig(kubeconfig, options=UNLIMITED) as client:

        @kopf.on.create(GROUP, "v1", "things", registry=registry)
        @kopf.on.update(GROUP, "v1", "things", registry=registry)
        async def reconcile(meta: kopf.Meta, namespace: str | None, name: str, patch: kopf.Patch, **_: Any) -> None:
            child = {"metadata": {"name": name}, "data": {"generation": str(meta["generation"])}}
            await client.apply(CONFIG_MAPS, name, child, namespace, field_manager="kopf")
            patch.status["observedGeneration"] = meta["generation"]

        await kopf.operator(registry=registry, settings=settings, standalone=True, namespaces=[namespace])


if __name__ == "__main__":
    main()
