"""An operator inside another program, on its event loop."""

import asyncio
import sys
from pathlib import Path

from kube_runtime import Client, JsonObject, Resource
from kube_runtime.operator import Operator, Owner

CONFIG_MAPS = Resource.dynamic("", "v1", "ConfigMap", "configmaps", namespaced=True)
operator = Operator("embedded")
answered = asyncio.Event()


@operator.reconciles(CONFIG_MAPS)
async def answer(item: JsonObject, owner: Owner[JsonObject]) -> None:
    if "question" in item.get("data", {}):
        document = {"data": {"answer": "42"}}
        key, client = owner.key, owner.manager.client
        await client.apply(CONFIG_MAPS, key.name, document, key.namespace, field_manager=owner.operator)
        answered.set()


async def main(kubeconfig: Path, namespace: str) -> None:
    async with await Client.from_environment(kubeconfig) as client, operator.running(client, namespace=namespace):
        document = {"metadata": {"name": "one"}, "data": {"question": "why"}}
        await client.create(CONFIG_MAPS, document, namespace, field_manager="program")
        await answered.wait()
        sys.stdout.write("answered\n")


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), sys.argv[2]))
