"""`klm leave` and `klm join` change nothing in a cluster that is that of another Kyma."""

import base64
import io
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from kube_runtime import Client
from kyma_fleet.identities import MARK, SERVICE_ACCOUNTS, kubeconfig_for
from kyma_fleet.problems import Problem
from kyma_fleet.registration.join import Joining, join
from kyma_fleet.registration.leave import Leaving, leave
from kyma_fleet.screen import Screen
from lifecycle_manager.contract.resources import KYMAS, SECRETS
from lifecycle_manager_api import names
from tests.waiting import is_gone
from tests.world import KCP, OPTIONS, PERMISSIVE, World, open_world

ACCOUNT = "lifecycle-manager", "kube-system"


@pytest_asyncio.fixture
async def world() -> AsyncIterator[World]:
    async with open_world() as opened:
        yield opened


def token(uid: str) -> str:
    claims = {"sub": f"system:serviceaccount:{ACCOUNT[1]}:{ACCOUNT[0]}", "iat": 1_700_000_000, "exp": 1_700_090_000}
    claims |= {"kubernetes.io": {"serviceaccount": {"name": ACCOUNT[0], "uid": uid}}}
    return f"e30.{base64.urlsafe_b64encode(json.dumps(claims).encode()).decode().rstrip('=')}.sign"


@dataclass(eq=False)
class Fleet:
    """Clusters that joined, and one command. `asked` are the questions, each of which gets `answer`."""

    world: World
    folder: Path
    answer: bool = True
    asked: list[str] = field(default_factory=list)

    async def join(self, name: str, *, registered: bool = True) -> None:
        skr = await self.world.skr(name)
        document = {"metadata": {"name": ACCOUNT[0], "labels": MARK}}
        made = await skr.create(SERVICE_ACCOUNTS, document, ACCOUNT[1], field_manager="klm")
        if registered:
            await self.register(name, name, made["metadata"]["uid"])

    async def register(self, name: str, cluster: str, uid: str) -> None:
        """Create a Kyma, and its access Secret with a token of the ServiceAccount in a cluster."""
        config = kubeconfig_for(self.file(cluster), "lifecycle-manager")(token(uid))
        labels = {names.KYMA_NAME: name, names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        metadata = {"name": f"kubeconfig-{name}", "labels": labels, "annotations": {names.RENEW_TOKEN: "true"}}
        secret = {"metadata": metadata, "data": {"config": base64.b64encode(config.encode()).decode()}}
        kyma = {"metadata": {"name": name}, "spec": {"channel": "regular"}}
        await self.world.kcp.create(SECRETS, secret, KCP, field_manager="klm")
        await self.world.kcp.create(KYMAS, kyma, KCP, field_manager="klm")

    def file(self, name: str) -> Path:
        file = self.folder / name
        file.write_text(json.dumps(self.world.cluster(name).kubeconfig))
        return file

    async def leave(self, name: str, cluster: str) -> int:
        def confirm(question: str) -> bool:
            self.asked.append(question)
            return self.answer

        leaving = Leaving(name, self.file(cluster), timeout=timedelta(seconds=5))
        return await leave(self.world.kcp, Screen(stream=io.StringIO()), leaving, confirm)

    async def has_account(self, name: str) -> bool:
        return not await is_gone((await self.world.skr(name)).get(SERVICE_ACCOUNTS, *ACCOUNT))


@pytest.fixture
def fleet(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Fleet:
    async def connected(path: Path, **_: Any) -> Client:
        config = world.cluster(path.name).kubeconfig
        return await Client.from_kubeconfig(config, options=OPTIONS, policy=PERMISSIVE)

    monkeypatch.setattr(Client, "from_environment", connected)
    return Fleet(world, tmp_path)


@pytest.mark.parametrize("registered", [True, False])
async def test_cluster_that_is_not_that_of_the_kyma_stays_as_it_is(fleet: Fleet, *, registered: bool) -> None:
    await fleet.join("demo")
    await fleet.join("other", registered=registered)
    with pytest.raises(Problem, match=r"other leads to .*, which is not the cluster of Kyma demo; nothing changed"):
        await fleet.leave("demo", "other")
    assert await fleet.has_account("other")
    await fleet.world.kcp.get(KYMAS, "demo", KCP)


async def test_leaving_once_more_spares_the_cluster_of_another_kyma(fleet: Fleet) -> None:
    await fleet.join("other")
    with pytest.raises(Problem, match=r"other leads to .*, the cluster of Kyma other; nothing changed"):
        await fleet.leave("demo", "other")
    assert await fleet.has_account("other")


async def test_kyma_that_leads_to_the_cluster_of_another_one_leaves_without_it(fleet: Fleet) -> None:
    await fleet.join("other")
    account = await (await fleet.world.skr("other")).get(SERVICE_ACCOUNTS, *ACCOUNT)
    await fleet.register("demo", "other", account["metadata"]["uid"])
    with pytest.raises(Problem, match=r"other leads to .*, the cluster of Kyma other; nothing changed"):
        await fleet.leave("demo", "other")
    assert await fleet.has_account("other")
    await fleet.world.kcp.get(KYMAS, "demo", KCP)


async def test_cluster_of_another_kyma_does_not_join(fleet: Fleet) -> None:
    await fleet.join("other")
    screen = Screen(stream=io.StringIO())
    with pytest.raises(Problem, match=r"the cluster of Kyma other; nothing changed\. klm leave other takes it out"):
        await join(fleet.world.kcp, screen, Joining("demo", fleet.file("other")))
    assert await is_gone(fleet.world.kcp.get(KYMAS, "demo", KCP))


async def test_service_account_of_a_cluster_that_left_is_removed_after_a_question(fleet: Fleet) -> None:
    await fleet.join("demo", registered=False)
    fleet.answer = False
    with pytest.raises(Problem, match="not confirmed"):
        await fleet.leave("demo", "demo")
    assert await fleet.has_account("demo")
    fleet.answer = True
    assert await fleet.leave("demo", "demo") == 0
    assert (await fleet.world.skr("demo")).server in fleet.asked[0]
    assert not await fleet.has_account("demo")


async def test_cluster_of_the_kyma_leaves(fleet: Fleet) -> None:
    await fleet.join("demo")
    await fleet.join("other")
    assert await fleet.leave("demo", "demo") == 0
    assert not await fleet.has_account("demo")
    assert await fleet.has_account("other")
