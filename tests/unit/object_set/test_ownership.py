"""Which of several sets in one SKR has an object."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import InventoryEntry, KubernetesObject, ObjectKey
from lifecycle_manager.object_set.ownership import (
    Claim,
    Holder,
    SetOwner,
    claim_key,
    conflicts,
    holders_of,
    is_managed_by_another,
    next_owners,
)
from lifecycle_manager.sync_resource.snapshot import claim_index
from lifecycle_manager_api import names
from tests import builders

GARDEN, MEADOW, ORCHARD = (ObjectKey("kcp-system", f"demo-{name}") for name in ("garden", "meadow", "orchard"))
NAMESPACE = InventoryEntry("", "v1", "Namespace", "", "fields")


def thing(api_version: str, kind: str, name: str = "x", namespace: str = "") -> KubernetesObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {})
    return KubernetesObject.of({"apiVersion": api_version, "kind": kind, "metadata": metadata}, 3)


CONFIG_MAP = thing("v1", "ConfigMap", "one", "shop")
ENTRY = InventoryEntry("", "v1", "ConfigMap", "shop", "one")


NOW, LATER = ("2026-01-01", "b"), ("2026-02-02", "a")


def test_the_first_that_claims_an_object_has_it() -> None:
    (conflict,) = conflicts([CONFIG_MAP], (), NOW, [Claim(ENTRY, *LATER)])

    assert str(conflict) == "document 3: ConfigMap shop/one (v1) belongs to SyncResource a"
    assert conflicts([CONFIG_MAP], (ENTRY,), NOW, ()) == ()


def test_an_object_that_both_have_belongs_to_the_older() -> None:
    assert conflicts([CONFIG_MAP], (ENTRY,), NOW, [Claim(ENTRY, *LATER)]) == ()
    assert [each.claim.owner for each in conflicts([CONFIG_MAP], (ENTRY,), LATER, [Claim(ENTRY, *NOW)])] == ["b"]


@pytest.mark.parametrize(
    ("entry", "wanted", "same"),
    [
        (ENTRY, thing("v1", "ConfigMap", "one", "other"), False),
        (ENTRY, thing("v2", "ConfigMap", "one", "shop"), True),
        (InventoryEntry("", "v1", "ConfigMap", "default", "one"), thing("v1", "ConfigMap", "one"), True),
        (InventoryEntry("", "v1", "Namespace", "", "one"), thing("v1", "Namespace", "one"), True),
        (InventoryEntry("", "v1", "Namespace", "", "one"), thing("v1", "Namespace", "one", "ignored"), True),
    ],
)
def test_document_is_the_object_of_an_entry_in_the_same_place(
    entry: InventoryEntry, wanted: KubernetesObject, same: bool
) -> None:
    assert bool(conflicts([wanted], (), NOW, [Claim(entry, *LATER)])) is same


def test_status_is_indexed_by_what_it_claims() -> None:
    resource = builders.sync_resource(
        status={"synced": [{"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "one"}]}
    )
    assert list(claim_index(resource)) == [claim_key("demo", "", "ConfigMap", "one")]


def held_by(key: ObjectKey, *entries: InventoryEntry, **given: Any) -> Holder:
    return Holder(SetOwner(key, key.name), frozenset(each.identity for each in entries), **given)


def test_object_is_left_to_whoever_has_it_and_first_to_one_who_manages_it() -> None:
    other = InventoryEntry("", "v1", "Namespace", "", "other")
    left_alone, meadow = held_by(GARDEN, NAMESPACE, manages=False), held_by(MEADOW, NAMESPACE)
    assert next_owners([NAMESPACE, other], [left_alone]) == {NAMESPACE: left_alone}
    assert next_owners([NAMESPACE, other], [left_alone, meadow]) == {NAMESPACE: meadow}
    assert holders_of([NAMESPACE], [meadow, left_alone, held_by(ORCHARD, other)]) == (GARDEN, MEADOW)


def test_object_is_managed_by_its_owner_if_that_one_has_it_and_is_not_left_alone() -> None:
    live = {"metadata": {"annotations": {names.OWNED_BY: str(MEADOW)}}}
    assert is_managed_by_another(NAMESPACE, live, [held_by(MEADOW, NAMESPACE)])
    assert not is_managed_by_another(NAMESPACE, live, [held_by(MEADOW)])
    assert not is_managed_by_another(NAMESPACE, live, [held_by(ORCHARD, NAMESPACE)])
    assert not is_managed_by_another(NAMESPACE, live, [held_by(MEADOW, NAMESPACE, manages=False)])
    assert not is_managed_by_another(NAMESPACE, {"metadata": {}}, [held_by(MEADOW, NAMESPACE)])


@pytest.mark.parametrize(
    ("entry", "changed", "owned"),
    [
        (ENTRY, {}, True),
        (ENTRY, {names.OWNED_BY: str(MEADOW)}, False),
        (ENTRY, {names.OWNED_BY: None}, False),
        (ENTRY, {names.MANAGED_BY: "somebody"}, False),
        (ENTRY, {names.MANAGED_BY: None}, False),
        (InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls"), {}, False),
        (InventoryEntry("", "v1", "Namespace", "", "kyma-system"), {}, False),
    ],
)
def test_object_is_deleted_only_for_the_owner_that_it_names(
    entry: InventoryEntry, changed: dict[str, str | None], *, owned: bool
) -> None:
    owner = SetOwner(GARDEN, "garden")
    marks = {names.MANAGED_BY: names.LIFECYCLE_MANAGER, **owner.annotations} | changed
    present = {key: value for key, value in marks.items() if value is not None}
    live = {"metadata": {"labels": present, "annotations": present}}
    assert owner.owns(entry, live) is owned
    assert not owner.owns(entry, {"metadata": {}})


@pytest.mark.parametrize(
    ("marks", "owned"),
    [
        ({names.MANAGED_BY: "kyma", names.DEPRECATED_OWNED_BY: str(GARDEN)}, True),
        ({names.MANAGED_BY: "kyma", names.OWNED_BY: str(GARDEN)}, True),
        ({names.MANAGED_BY: "kyma", names.DEPRECATED_OWNED_BY: str(MEADOW)}, False),
        # handed over to another module since
        ({names.MANAGED_BY: "kyma", names.DEPRECATED_OWNED_BY: str(GARDEN), names.OWNED_BY: str(MEADOW)}, False),
        ({names.MANAGED_BY: "somebody", names.DEPRECATED_OWNED_BY: str(GARDEN)}, False),
        ({names.DEPRECATED_OWNED_BY: str(GARDEN)}, False),
        ({names.MANAGED_BY: "kyma"}, False),
    ],
)
def test_object_of_a_former_version_is_deleted_for_the_owner_that_it_names(
    marks: dict[str, str], *, owned: bool
) -> None:
    live = {"metadata": {"labels": marks, "annotations": marks}}
    assert SetOwner(GARDEN, "garden").owns(ENTRY, live) is owned
    secret = InventoryEntry("", "v1", "Secret", "kyma-system", "skr-webhook-tls")
    assert not SetOwner(GARDEN, "garden").owns(secret, live)


OBJECTS = [InventoryEntry("", "v1", "Namespace", "", name) for name in "abc"]


@given(
    modules=st.dictionaries(st.sampled_from("uvwxyz"), st.sets(st.sampled_from(OBJECTS), min_size=1), min_size=1),
    data=st.data(),
)
def test_no_order_of_removals_leaves_anything_over_or_takes_what_a_module_still_has(
    modules: dict[str, set[InventoryEntry]], data: st.DataObject
) -> None:
    """Each module removes what says that it is its own, as an applier does; some are on their way out together."""
    cluster: dict[InventoryEntry, str] = {}
    for name in data.draw(st.permutations(sorted(modules))):
        cluster |= dict.fromkeys(modules[name], name)
    there, going = dict(modules), set[str]()
    for name in data.draw(st.permutations(sorted(modules))):
        going |= {name, *data.draw(st.sets(st.sampled_from(sorted(modules))))}
        staying = [held_by(ObjectKey("kcp", key), *there[key]) for key in there if key not in going]
        left = next_owners(there.pop(name), staying)
        for entry, owner in list(cluster.items()):
            if owner == name and entry in left:
                cluster[entry] = left[entry].key.name
            elif owner == name:
                del cluster[entry]
        assert {entry for key, has in there.items() if key not in going for entry in has} <= set(cluster)
    assert cluster == {}


@pytest.mark.parametrize(
    ("name", "component"),
    [("demo-garden", "demo-garden"), ("a" * 80, "a" * 63), (f"{'a' * 62}-{'b' * 20}", "a" * 62)],
)
def test_objects_of_a_module_name_it_in_labels_that_a_server_accepts(name: str, component: str) -> None:
    owner = SetOwner(ObjectKey("kcp-system", name), "garden", is_module=True)
    assert owner.labels == {
        names.MODULE_NAME: "garden",
        "app.kubernetes.io/part-of": "Kyma",
        "app.kubernetes.io/component": component,
    }
    assert owner.annotations["operator.kyma-project.io/managed-by-reconciler-disclaimer"]


def test_objects_of_a_sync_resource_keep_the_labels_of_their_team() -> None:
    owner = SetOwner(GARDEN, "garden")
    assert owner.labels == {names.MODULE_NAME: "garden"}
    assert owner.annotations.keys() == {names.OWNED_BY}
