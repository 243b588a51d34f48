"""Server-side apply: who owns what, who is in whose way, and what is left when an owner gives its fields up."""

import pytest

from tests.integration.kube_runtime.conformance.both import APPLY, MERGE, Both
from tests.integration.kube_runtime.conformance.widgets import GROUP, WIDGETS, config_map, widget

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
FULL = {
    "size": 1,
    "nested": {"a": "1"},
    "parts": [{"name": "x", "note": "n"}],
    "options": {"a": "b"},
    "tags": ["q"],
    "plain": [{"x": 1}],
    "whole": {"a": "1"},
    "free": {"q": {"r": [1]}},
}


def by(manager: str, *, force: bool = False) -> str:
    return f"{WIDGETS}/one?fieldManager={manager}&force={'true' if force else 'false'}"


async def test_apply_makes_an_object_and_owns_what_it_names(both: Both) -> None:
    created = await both.ask(201, "PATCH", by("first"), widget("one", **FULL), APPLY)

    (owner,) = created["metadata"]["managedFields"]
    assert owner["fieldsV1"]["f:spec"]["f:parts"] == {'k:{"name":"x"}': {".": {}, "f:name": {}, "f:note": {}}}
    await both.ask(200, "PATCH", by("first"), widget("one", **FULL), APPLY)


async def test_conflict_names_every_field_and_who_owns_it(both: Both) -> None:
    await both.ask(201, "PATCH", by("first"), widget("one", **FULL), APPLY)
    await both.ask(200, "PATCH", f"{WIDGETS}/one?fieldManager=patcher", {"spec": {"color": "green"}}, MERGE)
    other = {"size": 2, "color": "red", "parts": [{"name": "x", "note": "m"}], "tags": ["z"], "plain": [{"x": 2}]}

    refused = await both.ask(409, "PATCH", by("second"), widget("one", **other, whole={"b": "2"}), APPLY)
    assert {cause["field"]: cause["message"] for cause in refused["details"]["causes"]} == {
        ".spec.size": 'conflict with "first"',
        ".spec.plain": 'conflict with "first"',
        ".spec.whole": 'conflict with "first"',
        '.spec.parts[name="x"].note': 'conflict with "first"',
        ".spec.color": f'conflict with "patcher" using {GROUP}/v1',
    }
    await both.ask(200, "PATCH", by("second", force=True), widget("one", **other, whole={"b": "2"}), APPLY)


async def test_what_is_no_longer_applied_goes_unless_somebody_else_has_it(both: Both) -> None:
    await both.ask(201, "PATCH", by("first"), widget("one", **FULL), APPLY)
    other = {"size": 1, "parts": [{"name": "x", "count": 5}, {"name": "y"}], "tags": ["q", "z"]}
    await both.ask(200, "PATCH", by("second", force=True), widget("one", **other), APPLY)

    left = await both.ask(200, "PATCH", by("first"), widget("one", size=1), APPLY)

    assert left["spec"] == {
        "size": 1,
        "color": "red",
        "parts": [{"name": "x", "count": 5}, {"name": "y", "count": 1}],
        "tags": ["q", "z"],
    }
    await both.ask(200, "PATCH", by("second"), widget("one", size=1), APPLY)


async def test_order_of_a_list_with_keys_is_that_of_the_apply(both: Both) -> None:
    named = [{"name": name} for name in "abc"]
    await both.ask(201, "PATCH", by("first"), widget("one", size=1, parts=named), APPLY)
    moved = [{"name": "c"}, {"name": "a"}]
    await both.ask(200, "PATCH", by("second"), widget("one", size=1, parts=moved), APPLY)
    await both.ask(200, "PATCH", by("first"), widget("one", size=1, parts=moved), APPLY)
    await both.ask(200, "PATCH", by("first"), widget("one", size=1, tags=["b", "a"]), APPLY)
    await both.ask(200, "PATCH", by("second"), widget("one", size=1, tags=["c", "a"]), APPLY)


async def test_update_takes_over_what_it_changes(both: Both) -> None:
    await both.ask(201, "PATCH", by("first"), widget("one", **FULL), APPLY)
    patch = {
        "metadata": {"labels": {"a": "b"}, "finalizers": ["example.com/held"]},
        "spec": {"size": 3, "nested": None, "options": {"a": None, "c": "d"}, "parts": [{"name": "z"}], "plain": []},
    }
    await both.ask(200, "PATCH", f"{WIDGETS}/one?fieldManager=patcher", patch, MERGE)
    await both.ask(409, "PATCH", by("first"), widget("one", size=1), APPLY)
    await both.ask(200, "PATCH", by("first", force=True), widget("one", size=1), APPLY)


async def test_status_has_owners_of_its_own(both: Both) -> None:
    await both.ask(201, "PATCH", by("first"), widget("one", size=1), APPLY)
    conditions = [{"type": "Ready", "status": "True"}]
    status = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "one"}}
    path = f"{WIDGETS}/one/status?fieldManager="
    ready = {"phase": "Ready", "conditions": conditions}
    await both.ask(200, "PATCH", f"{path}first", {**status, "status": ready}, APPLY)
    refused = await both.ask(409, "PATCH", f"{path}second", {**status, "status": {"phase": "Other"}}, APPLY)
    assert refused["details"]["causes"][0]["message"] == 'conflict with "first" with subresource "status"'
    await both.ask(200, "PATCH", f"{path}third", {**status, "status": {"conditions": [{"type": "More"}]}}, APPLY)
    await both.ask(200, "PATCH", f"{path}first", {**status, "status": {"phase": "Ready"}}, APPLY)
    await both.ask(404, "PATCH", f"{WIDGETS}/two/status?fieldManager=m", {**status, "metadata": {"name": "two"}}, APPLY)


async def test_labels_annotations_finalizers_and_owners_are_applied_each_for_itself(both: Both) -> None:
    metadata = {
        "labels": {"a": "b"},
        "annotations": {"c": "d"},
        "finalizers": ["example.com/one"],
    }
    path = f"{CONFIG_MAPS}/one?fieldManager="
    await both.ask(201, "PATCH", f"{path}first", config_map("one", metadata, k="v"), APPLY)
    more = {"labels": {"e": "f"}, "finalizers": ["example.com/two"]}
    await both.ask(200, "PATCH", f"{path}second", config_map("one", more, l="w"), APPLY)
    left = await both.ask(200, "PATCH", f"{path}first", config_map("one", k="v"), APPLY)
    assert left["metadata"]["labels"] == {"e": "f"}
    assert left["metadata"]["finalizers"] == ["example.com/two"]
    references = {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "u"}]}
    await both.ask(200, "PATCH", f"{path}first&dryRun=All", config_map("one", references, k="v"), APPLY)


async def test_containers_and_their_parts_are_merged_by_their_keys(both: Both) -> None:
    def deployment(image: str, **env: str) -> dict[str, object]:
        container = {"name": "x", "image": image, "env": [{"name": key, "value": value} for key, value in env.items()]}
        pod = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [container]}}
        spec = {"selector": {"matchLabels": {"a": "b"}}, "template": pod}
        return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "one"}, "spec": spec}

    path = "/apis/apps/v1/namespaces/{ns}/deployments/one?fieldManager="
    made = await both.own("PATCH", f"{path}first", deployment("i", A="1"), APPLY)
    changed = await both.own("PATCH", f"{path}second&force=true", deployment("j", B="2"), APPLY)
    refused = await both.ask(409, "PATCH", f"{path}first", deployment("i", A="1"), APPLY)
    for before, after in zip(made, changed, strict=True):
        assert before["metadata"]["generation"] + 1 == after["metadata"]["generation"]
        (container,) = after["spec"]["template"]["spec"]["containers"]
        assert container["image"] == "j"
        assert [each["name"] for each in container["env"]] == ["A", "B"]
    assert [cause["field"] for cause in refused["details"]["causes"]] == [
        '.spec.template.spec.containers[name="x"].image'
    ]


@pytest.mark.parametrize(
    ("code", "document"),
    [
        (500, widget("one", size=1, unknown=1)),
        (500, widget("one", size="x")),
        (500, widget("one", size=1, parts=[{"note": "x"}])),
        (500, widget("one", size=1, parts=[{"name": "x"}, {"name": "x"}])),
        (400, {**widget("one", size=1), "metadata": {"name": "one", "managedFields": []}}),
        (400, {"metadata": {"name": "one"}}),
        (422, widget("one", size=99)),
    ],
    ids=["unknown", "type", "keyless", "twice", "managedFields", "kindless", "invalid"],
)
async def test_document_that_cannot_be_applied_is_refused(both: Both, code: int, document: dict[str, object]) -> None:
    await both.ask(code, "PATCH", by("first"), document, APPLY)


async def test_unknown_field_of_a_built_in_kind_cannot_be_applied(both: Both) -> None:
    path = f"{CONFIG_MAPS}/one?fieldManager=first&fieldValidation=Strict"
    await both.ask(500, "PATCH", path, {**config_map("one"), "date": {}}, APPLY)


async def test_apply_needs_a_manager_and_minds_the_version_and_uid_it_names(both: Both) -> None:
    await both.ask(422, "PATCH", f"{WIDGETS}/one", widget("one", size=1), APPLY)
    await both.ask(201, "PATCH", by("first"), widget("one", size=1), APPLY)
    versioned = {**widget("one", size=1), "metadata": {"name": "one", "resourceVersion": "1"}}
    await both.ask(409, "PATCH", by("first"), versioned, APPLY)
    await both.ask(422, "PATCH", by("first"), {**versioned, "metadata": {"name": "one", "uid": "1"}}, APPLY)
    absent = f"{WIDGETS}/two?fieldManager=first"
    fresh = {**widget("two", size=1), "metadata": {"name": "two", "resourceVersion": "1"}}
    await both.ask(201, "PATCH", absent, fresh, APPLY)
    await both.ask(409, "PATCH", f"{absent}&force=true", fresh, APPLY)
