"""The tree of a cluster: what belongs to what, and what is open at first."""

from collections.abc import Iterator

from kyma_fleet_page.cluster import MAX_OBJECTS, Node, Parts, cluster_of
from lifecycle_manager_api import names
from tests import builders

TIME = "2026-11-22T10:00"
OBJECT = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "kyma-system"}


def walk(node: Node) -> Iterator[Node]:
    yield node
    for child in node.children:
        yield from walk(child)


def test_tree_leads_from_the_kyma_to_the_object_that_is_not_ready() -> None:
    kyma = builders.kyma(status={"state": "Error", "modules": [{"name": "cloud-resources", "state": "Error"}]})
    config = builders.module_config("demo-cloud-resources", uid="config", status={"state": "Error"})
    synced = [
        OBJECT | {"name": "one", "state": "Ready"},
        OBJECT | {"kind": "Secret", "name": "two", "state": "Error", "message": "secrets is forbidden"},
    ]
    resource = builders.sync_resource("demo-cloud-resources", status={"state": "Error", "synced": synced})
    tree = cluster_of(kyma, Parts((), (config,), (resource,))).tree

    kinds = [node.kind for node in walk(tree)]
    assert kinds == ["Kyma", "Module", "ModuleConfig", "SyncResource", "Secret", "ConfigMap"]
    assert all(node.is_open for node in list(walk(tree))[:5])
    assert [node.message for node in walk(tree) if node.kind == "Secret"] == ["secrets is forbidden"]


def test_mandatory_modules_are_below_the_kyma_and_objects_are_bounded() -> None:
    synced = [OBJECT | {"name": f"n{number}"} for number in range(MAX_OBJECTS + 3)]
    manifest = builders.manifest("warden", mandatory=True, status={"state": "Ready", "synced": synced})
    tree = cluster_of(builders.kyma(), Parts((manifest,))).tree
    (child,) = tree.children
    assert child.kind == "Manifest"
    assert len(child.children) == MAX_OBJECTS + 1
    assert child.children[-1].name == "and 3 more objects"


def test_last_change_has_its_stations() -> None:
    def condition(kind: str, time: str) -> dict[str, str]:
        return {"type": kind, "status": "True", "reason": "R", "message": "", "lastTransitionTime": time}

    reference = {"apiVersion": "v1", "kind": "Infrastructure", "namespace": "kyma-system", "name": "default"}
    config = builders.module_config(
        "demo-cloud-resources",
        annotations={names.OBSERVED_AT: f"{TIME}:00.5Z"},
        spec={"resourceRef": reference},
        status={
            "conditions": [condition("Synced", "2026-11-22T10:00:01Z"), condition("Rendered", "2026-11-22T10:00:02Z")]
        },
    )
    broken = builders.module_config("demo-other", annotations={names.OBSERVED_AT: "yesterday"})
    moments = cluster_of(builders.kyma(), Parts((), (config, broken), ())).last_change
    assert [each.what for each in moments] == [
        "the user changed Infrastructure kyma-system/default",
        "written as ModuleConfig",
        "rendered",
    ]
