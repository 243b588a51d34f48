"""`klm diff`: how differences are printed."""

import io
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kube_runtime import Client, InventoryEntry, KubeconfigPolicy, ResponseTooLarge, parse_objects
from kube_runtime.apply.difference import ObjectDifference, difference_between
from kube_simulation import Answer, ApiRequest, Rule, serve_simulation
from kyma_fleet import comparison
from kyma_fleet.comparison import ClusterComparison, ComparedObject
from kyma_fleet.screen import Screen
from lifecycle_manager_api import names
from tests import builders
from tests.kinds import CONFIG_MAPS
from tests.world import open_world

ENTRY = InventoryEntry("", "v1", "ConfigMap", "ns", "limits")


def shown(*differences: ObjectDifference, colour: bool = False) -> str:
    stream = io.StringIO()
    found = ClusterComparison(kyma="demo", objects=tuple(map(ComparedObject.of, differences)))
    found.print_table(Screen(colour, None, stream))
    return stream.getvalue()


def config_map(value: str) -> dict[str, object]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "limits"}, "data": {"a": value}}


def test_change_is_shown_line_by_line_without_control_characters() -> None:
    text = shown(difference_between(ENTRY, 0, config_map("1\x1b[2J"), config_map("2")))
    assert "~ " in text
    assert "differs and would be changed" in text
    assert "\x1b" not in text
    assert '    +  a: "2"' in text.splitlines()
    assert "\x1b[32m" in shown(difference_between(ENTRY, 0, config_map("1"), config_map("2")), colour=True)


def test_what_is_as_wanted_is_counted_alone() -> None:
    same = difference_between(ENTRY, 0, config_map("1"), config_map("1"))
    assert shown(same) == "1 object: 1 as wanted\n"
    others = ObjectDifference(ENTRY, None, "prune"), ObjectDifference(ENTRY, 0, "fail", error="refused\nby policy")
    assert shown(same, *others).splitlines()[-1] == "3 objects: 1 as wanted, 1 no longer wanted, 1 not comparable"
    assert "can't be compared: refused by policy" in shown(*others)


class Large(Rule):
    """Answers with more values than an object has."""

    async def around(self, request: ApiRequest, proceed: Callable[[], Awaitable[Answer]]) -> Answer:
        return Answer(200, b'{"metadata":{"name":"a"},"data":[' + b"1," * 200_000 + b"1]}")


async def test_answer_of_a_cluster_with_more_values_than_any_object_is_not_decoded() -> None:
    async with serve_simulation() as simulation:
        cluster = simulation.cluster("skr")
        cluster.add_rule(Large())
        policy = KubeconfigPolicy.permissive()
        async with await Client.from_kubeconfig(
            cluster.kubeconfig, options=comparison.SKR_OPTIONS, policy=policy
        ) as client:
            with pytest.raises(ResponseTooLarge):
                await client.get(CONFIG_MAPS, "a", "default")


async def test_long_text_of_a_module_manager_is_read_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = list[threading.Thread]()

    def noted(text: str) -> Any:
        threads.append(threading.current_thread())
        return parse_objects(text)

    monkeypatch.setattr("kyma_fleet.comparison.parse_objects", noted)
    async with open_world() as world:
        text = f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: a}}\ndata: {{a: {'a' * 9_000}}}\n"
        resource = builders.sync_resource(
            text=text, labels={names.KYMA_NAME: "demo", names.MODULE_NAME: "cloud-resources"}
        )
        await world.create(resource)
        wanted = await comparison.wanted_sets(world.kcp, "demo", "cloud-resources", "kyma-system")
    assert [len(each.objects) for each in wanted] == [1]
    assert threading.main_thread() not in threads
