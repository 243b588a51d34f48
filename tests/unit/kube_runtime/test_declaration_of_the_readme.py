"""The declaration of a controller that the README shows works with kinds, predicates and signals of a program."""

import asyncio
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kube_runtime import Causes, Change, Client, Index, Manager, ObjectKey, Result
from tests.kinds import CONFIG_MAPS, SECRETS
from tests.waiting import eventually

_, DECLARATION, _ = re.findall(r"```python\n(.*?)```", Path("libraries/kube_runtime/README.md").read_text(), re.DOTALL)
NAMESPACE, TEAM = "default", "team"


@dataclass(frozen=True)
class ClusterReachable:
    thing: str


@dataclass
class ThingState:
    rounds: int = 0


@dataclass(frozen=True)
class ThingReconciler:
    client: Client
    seen: list[tuple[str, tuple[Any, ...], int]]

    async def reconcile(self, key: ObjectKey, causes: Causes, state: ThingState) -> Result:
        state.rounds += 1
        self.seen.append((key.name, tuple(causes), state.rounds))
        return Result()


def data_changed(change: Change[Any]) -> bool:
    return change.old is None or change.new is None or change.old.get("data") != change.new.get("data")


def things_of_team(change: Change[Any]) -> Iterable[ObjectKey]:
    return [ObjectKey(NAMESPACE, f"thing-of-{each['metadata']['name']}") for each in (change.new,) if each is not None]


async def test_controller_is_triggered_by_its_kind_another_kind_and_a_signal(client: Client) -> None:
    seen: list[tuple[str, tuple[Any, ...], int]] = []
    names = {
        "Manager": Manager,
        "THINGS": CONFIG_MAPS,
        "TEAMS": SECRETS,
        "BY_TEAM": Index("team", lambda thing: [thing["data"][TEAM]]),
        "TEAM": TEAM,
        "ThingState": ThingState,
        "team_of": lambda key: key.name.removeprefix("thing-of-"),
        "spec_changed": data_changed,
        "things_of_team": things_of_team,
        "ClusterReachable": ClusterReachable,
        "things_of": lambda signal: [ObjectKey(NAMESPACE, signal.thing)],
        "ThingReconciler": lambda client: ThingReconciler(client, seen),
    }
    exec(compile(DECLARATION, "libraries/kube_runtime/README.md", "exec", dont_inherit=True), names)  # noqa: S102 - our own
    await client.apply(CONFIG_MAPS, "thing-of-red", {"data": {TEAM: "red"}}, NAMESPACE, field_manager="test")
    manager, stopping = Manager(client, namespace=NAMESPACE), asyncio.Event()
    setup: Any = names["setup"]
    setup(manager)
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(manager.run(stopping))
        await eventually(lambda: [name for name, _, _ in seen] == ["thing-of-red"])
        await client.apply(SECRETS, "red", {}, NAMESPACE, field_manager="test")
        await eventually(lambda: seen[1:] == [("thing-of-red", (TEAM,), 2)])
        signal = ClusterReachable("thing-of-red")
        assert manager.publish(signal) == 1
        await eventually(lambda: seen[2:] == [("thing-of-red", (signal,), 3)])
        stopping.set()
