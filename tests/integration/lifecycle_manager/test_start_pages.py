"""The commands of the page for users, in a cluster that has another module: they change what they say, and no more."""

import asyncio
import os
import re
import shlex
import sys
from pathlib import Path
from typing import Any

from kube_runtime import Client, Resource
from kyma_demo.environment import Environment
from kyma_demo.walkthrough import Walkthrough
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS
from lifecycle_manager_api import names
from tests.integration.lifecycle_manager.catalog_entries import in_catalog, release, template
from tests.integration.lifecycle_manager.test_manifests_of_modules import template_with
from tests.kinds import CONFIG_MAPS
from tests.registries import BlobServer
from tests.waiting import eventually

PAGE = Path("docs/start/user.md").read_text()
COMMANDS = [
    command.replace("edit", "get") if " edit " in command else command
    for command in re.findall(r"(?:^ {8}|`)(kubectl [^`\n]*(?:kyma|modulereleasemetas)[^`\n]*)", PAGE, re.MULTILINE)
]
MODULE = "telemetry"
OTHER: dict[str, Any] = {"name": "cloud-resources", "managed": True}
KUBECTL = (str(Path(sys.executable).with_name("klm")), "local", "kubectl")


async def run(command: str, kubeconfig: Path) -> str:
    """Run a command of the page as its reader does."""
    words = (*KUBECTL, *shlex.split(command)[1:])
    environment = os.environ | {"KUBECONFIG": str(kubeconfig)}
    pipe = asyncio.subprocess.PIPE
    done = await asyncio.create_subprocess_exec(*words, stdout=pipe, stderr=asyncio.subprocess.STDOUT, env=environment)
    output = (await done.communicate())[0].decode()
    assert done.returncode == 0, f"{command}\n{output}"
    return output


async def identities(client: Client, *resources: Resource[Any]) -> set[tuple[str, ...]]:
    """Return what there is of some kinds."""
    return {
        (resource.plural_name, each.metadata.namespace, each.metadata.name, each.metadata.uid)
        for resource in resources
        for each in await client.list_revisions(resource)
    }


async def test_commands_for_users_enable_a_module_and_leave_the_others(
    environment: Environment, walkthrough: Walkthrough, layers: BlobServer
) -> None:
    skr, kcp = environment.skr, environment.kcp
    assert len(COMMANDS) >= 5, "the page has other commands, or none is found"
    offered = template_with(layers, template(MODULE, "1.0.0", data=None), ())
    async with in_catalog(kcp, offered, release(MODULE, regular="1.0.0")):
        before = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
        assert [each.name for each in before.spec.modules] == [OTHER["name"]]
        own, manifests = await identities(skr, CONFIG_MAPS), await identities(kcp, MANIFESTS)
        try:
            for command in COMMANDS:
                await run(command, environment.skr_kubeconfig)
            after = await skr.get(KYMAS, names.DEFAULT_KYMA_NAME, names.SKR_NAMESPACE)
            assert [each.name for each in after.spec.modules] == [OTHER["name"], MODULE]
            assert after.spec.modules[0] == before.spec.modules[0]
            assert (after.spec.channel, after.metadata.labels) == (before.spec.channel, before.metadata.labels)
            assert own <= await identities(skr, CONFIG_MAPS), "objects of other modules stay"
            added = [each[2] for each in await identities(kcp, MANIFESTS) - manifests]
            assert [name for name in added if MODULE in name] == added
            assert manifests <= await identities(kcp, MANIFESTS), "no module is removed or installed anew"
        finally:
            await walkthrough.set_modules([OTHER])

            async def only_the_other() -> bool:
                return not await identities(kcp, MANIFESTS) - manifests

            await eventually(only_the_other)
