"""What of a cluster is shown to whom: only what the API server lets that user list."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from kube_runtime import Forbidden, Resource
from kyma_fleet.problems import Problem
from kyma_fleet_page.clusters import NEEDED_TO_COMPARE, Clusters
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import Kyma, names
from tests import builders

NOW = datetime(2026, 11, 22, 10, tzinfo=UTC)
ALL = ("manifests", "moduleconfigs", "syncresources", "moduletemplates", "modulereleasemetas", "events")


@dataclass(frozen=True)
class Cache:
    items: tuple[Any, ...]

    def by_index(self, _: object, __: str) -> Iterable[Any]:
        return self.items

    def get(self, _: object) -> Any:
        return self.items[0]


class ControlPlane:
    """Lists one object of each kind, and no Events: whoever may not list them causes no request."""

    async def list(self, resource: Resource[Any], *_: object, **__: object) -> Any:
        written = [{"manager": "somebody", "operation": "Update", "time": "2026-11-22T10:00:00Z"}]
        metadata = {"name": f"a-{resource.kind}", "namespace": names.KCP_NAMESPACE, "managedFields": written}
        return SimpleNamespace(items=[{"kind": resource.kind, "metadata": metadata}])


def rights(*plurals: str, namespace: str = "") -> Any:
    async def may_list(resource: Resource[Any], asked: str) -> bool:
        return resource.plural in plurals and namespace in ("", asked)

    return may_list


def clusters() -> tuple[Clusters, Kyma]:
    modules = [builders.module_status("api", "1.0.0", "Error")]
    ready = builders.condition("Ready", "ModuleError", "a module is in state Error")
    status = {"state": "Error", "modules": modules, "conditions": [ready], "observedGeneration": 1}
    kyma = builders.kyma("a", status=status)
    parts: dict[str, Any] = {
        "manifests": builders.manifest("api", kyma="a", name="the-manifest", status={"state": "Error"}),
        "configs": builders.module_config("the-config", module="api", status={"state": "Error"}),
        "sync_resources": builders.sync_resource("the-resource", module="api", status={"state": "Error"}),
    }
    others: dict[str, Any] = {
        "kcp": ControlPlane(),
        "offers": SimpleNamespace(current=lambda: Offer.of((), ())),
        "schedule": SimpleNamespace(timing=lambda: Timing(NOW, {}, timedelta(0))),
        "policies": SimpleNamespace(is_in_place=lambda _: True),
    }
    parts |= {"kymas": kyma, "releases": None, "rollouts": None}
    caches: dict[str, Any] = {kind: Cache((part,)) for kind, part in parts.items()}
    return Clusters(reading=asyncio.Semaphore(1), sync_namespace="kyma-system", **caches, **others), kyma


@pytest.mark.parametrize(
    ("may_list", "shown"),
    [
        (rights(*ALL), {"the-manifest", "the-config", "the-resource", "resolved to"}),
        (rights(*ALL, namespace=names.KCP_NAMESPACE), {"the-manifest", "the-config", "the-resource", "resolved to"}),
        (rights(*ALL, namespace="elsewhere"), set()),
        (rights("manifests"), {"the-manifest"}),
        (rights("syncresources", "moduletemplates"), {"the-resource"}),
        (rights(), set()),
    ],
)
async def test_user_sees_of_a_cluster_what_the_api_server_lets_that_user_list(may_list: Any, shown: set[str]) -> None:
    tree, kyma = clusters()
    explained = await tree.explain(kyma, may_list)
    text = str(explained)
    assert {each for each in ("the-manifest", "the-config", "the-resource", "resolved to") if each in text} == shown
    assert bool(explained.hidden) == (len(shown) < 4)


async def test_events_are_not_read_for_a_user_who_may_not_list_them() -> None:
    tree, kyma = clusters()
    with pytest.raises(Forbidden):
        await tree.events(kyma.metadata.name, rights("manifests"))


async def test_last_change_names_no_object_that_the_user_may_not_list() -> None:
    found = await clusters()[0].last_change("a", rights("kymas", "manifests"))
    assert [each.what.rpartition(" ")[2] for each in found] == ["a-Kyma", "a-Manifest"]


async def test_yaml_is_shown_of_objects_that_the_user_may_list_without_managed_fields() -> None:
    found = await clusters()[0].objects("a", rights("kymas", "syncresources"))
    assert [title for title, _ in found] == ["Kyma a-Kyma", "SyncResource a-SyncResource"]
    assert found[0][1] == "kind: Kyma\nmetadata:\n  name: a-Kyma\n  namespace: kcp-system\n"


@pytest.mark.parametrize("missing", [resource.plural for resource, _ in NEEDED_TO_COMPARE])
async def test_cluster_is_compared_only_for_a_user_who_could_read_its_access_secret(missing: str) -> None:
    given = {resource.plural for resource, _ in NEEDED_TO_COMPARE} - {missing}
    with pytest.raises(Problem, match=f"you may not list {missing}; .*klm-skr-access"):
        await clusters()[0].difference("a", "api", rights(*given))


async def test_modules_are_in_their_state_since_their_last_condition_changed() -> None:
    tree, kyma = clusters()
    times = ("2026-11-21T10:00:00Z", "2026-11-22T09:00:00Z")
    conditions = [
        builders.condition(kind, "why", at=at) for kind, at in zip(("Ready", "Installed"), times, strict=True)
    ]
    failed = builders.manifest("api", kyma="a", status={"state": "Error", "conditions": conditions})
    explained = await replace(tree, manifests=cast("Any", Cache((failed,)))).explain(kyma, rights(*ALL))
    assert explained.since == {"api": datetime.fromisoformat(times[1])}
    assert (await tree.explain(kyma, rights())).since == {}
