"""The explanation of a cluster as a tree: the links of `klm explain`, what is open at first, and the objects below."""

from collections.abc import Iterator

from kyma_fleet.explanation.chain import explain_all
from kyma_fleet.explanation.facts import Facts
from kyma_fleet.explanation.tree import MAX_OBJECTS, Node, tree_of
from tests import builders
from tests.unit.fleet.test_explanation import GOOD, condition, facts, module

OBJECT = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "kyma-system"}


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def tree(seen: Facts) -> Node:
    return tree_of(seen, explain_all(seen))


def test_tree_leads_from_the_kyma_to_the_object_that_is_not_ready() -> None:
    config = builders.module_config("demo-keda", module="keda", uid="config", status={"state": "Error"})
    synced = [
        OBJECT | {"name": "one", "state": "Ready"},
        OBJECT | {"kind": "Secret", "name": "two", "state": "Error", "message": "secrets is forbidden"},
    ]
    resource = builders.sync_resource("demo-keda", module="keda", status={"state": "Error", "synced": synced})
    seen = facts(module("Error"), state="Error", manifests=(), configs=(config,), sync_resources=(resource,))
    found = [each for each in walk(tree(seen)) if each.mark == "bad"]
    assert [each.title for each in found] == ["Kyma", "module", "ModuleConfig", "SyncResource", "Secret"]
    assert [each.text for each in found[:2]] == ["demo is Error", "keda is Error"]
    assert found[-1].text == "kyma-system/two is Error: secrets is forbidden"
    assert all(each.is_open for each in found)
    assert not [each for each in walk(tree(facts(module()))) if each.is_open and each.title == "module"]


def test_each_link_of_explain_is_in_the_tree_once() -> None:
    broken = facts(module("Error"), conditions=[condition("SKRReachable", "SKRUnauthorized", "why")], state="Error")
    titles = [(each.title, each.text) for each in walk(tree(broken))]
    assert [text for title, text in titles if title == "cluster"] == ["why (since 1h)"]
    own, of_module = explain_all(broken)
    expected = {(each.title, each.text) for each in (*own.links, *of_module.links)}
    assert expected <= set(titles)


def test_what_is_in_order_is_folded_beside_what_is_not() -> None:
    broken = tree(facts(module("Error"), conditions=[condition("SKRWebhook", "WatcherSilent", "why"), *GOOD[:1]]))
    assert [each.title for each in broken.notable] == ["Watcher", "catalog", "module"]
    assert [each.title for each in broken.in_order] == ["reconciled", "cluster"]
    others = [condition(kind, "Ready", "", "True") for kind in ("ModuleCatalog", "SKRWebhook")]
    healthy = tree(facts(module(), conditions=[*GOOD, *others]))
    assert (healthy.in_order, healthy.notable) == ((), healthy.children)


def test_objects_of_mandatory_modules_are_shown_and_bounded() -> None:
    synced = [OBJECT | {"name": f"n{number}"} for number in range(MAX_OBJECTS + 3)]
    manifest = builders.manifest("warden", mandatory=True, status={"state": "Ready", "synced": synced})
    found = list(walk(tree(facts(conditions=GOOD, manifests=(manifest,)))))
    assert len([each for each in found if each.title == "ConfigMap"]) == MAX_OBJECTS
    assert found[-1].text == "and 3 more objects"
