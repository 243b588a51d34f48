"""Create, update, merge patch and delete: both servers do and say the same."""

from typing import Any

import pytest

from tests.integration.kube_runtime.conformance.both import APPLY, JSON, MERGE, Both, comparable
from tests.integration.kube_runtime.conformance.widgets import WIDGETS, config_map, widget

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
LEASES = "/apis/coordination.k8s.io/v1/namespaces/{ns}/leases"


async def test_object_is_created_with_defaults_and_without_unknown_fields(both: Both) -> None:
    made = widget("one", size=1, unknown=1, nested={}, parts=[{"name": "x"}], plain=[{"x": 1, "y": 2}], free={"q": [1]})

    created = await both.ask(201, "POST", f"{WIDGETS}?fieldManager=m", made)

    assert created["spec"]["parts"] == [{"name": "x", "count": 1}]
    assert created["metadata"]["generation"] == 1
    await both.ask(409, "POST", WIDGETS, made)
    await both.ask(200, "GET", f"{WIDGETS}/one")


async def test_name_is_given_or_generated_or_missed(both: Both) -> None:
    generated = widget(None, size=1) | {"metadata": {"generateName": "some-"}}
    for answer in await both.own("POST", WIDGETS, generated):
        assert len(answer["metadata"]["name"]) == len("some-12345")
        assert comparable(answer)["metadata"]["generateName"] == "some-"
    await both.ask(422, "POST", WIDGETS, widget(None, size=1))
    await both.ask(422, "POST", WIDGETS, widget("No_Name", size=1))
    await both.ask(422, "POST", CONFIG_MAPS, config_map("No_Name"))
    await both.ask(422, "POST", "/api/v1/namespaces", {"metadata": {"name": "Bad_"}})
    await both.ask(422, "POST", "/api/v1/namespaces", {"metadata": {"name": "with.dots"}})


@pytest.mark.parametrize(
    "spec",
    [
        {"size": "big"},
        {"size": 11, "color": "blue", "name": "toolong"},
        {"size": 0, "name": "x", "tags": ["a", "a"], "parts": [{"name": "x"}, {"name": "x"}]},
        {"size": 1, "name": "a1"},
        {"size": 1, "parts": [{"name": f"n{number}"} for number in range(4)]},
        {"size": 1, "nested": [], "tags": {}, "free": 1, "options": {"a": 1}},
        {"size": 1, "port": True},
        {"size": 1, "parts": [{"note": "no name"}]},
        {},
    ],
    ids=lambda spec: ",".join(spec) or "nothing",
)
async def test_what_the_schema_forbids_is_refused_with_its_causes(both: Both, spec: dict[str, Any]) -> None:
    refused = await both.ask(422, "POST", WIDGETS, widget("one", **spec))

    assert refused["reason"] == "Invalid"
    assert refused["details"]["causes"]


async def test_null_takes_the_default_or_stays_where_it_is_allowed(both: Both) -> None:
    created = await both.ask(201, "POST", WIDGETS, widget("one", size=1, color=None, maybe=None, port="http"))

    assert created["spec"]["color"] == "red"
    assert created["spec"]["maybe"] is None


async def test_unknown_field_is_refused_where_that_is_asked_for(both: Both) -> None:
    unknown = widget("one", size=1, unknown=1, nested={"z": 1})
    await both.ask(400, "POST", f"{WIDGETS}?fieldValidation=Strict", unknown)
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    await both.ask(400, "POST", f"{CONFIG_MAPS}?fieldValidation=Strict", {**config_map("one", {"bad": 1}), "date": {}})


async def test_document_must_be_of_the_kind_and_place_that_the_path_names(both: Both) -> None:
    await both.ask(422, "POST", WIDGETS, {**widget("one", size=1), "kind": "Other"})
    await both.ask(400, "POST", WIDGETS, {**widget("one", size=1), "apiVersion": "other/v1"})
    elsewhere = {**widget("one", size=1), "metadata": {"name": "one", "namespace": "elsewhere"}}
    await both.ask(400, "POST", WIDGETS, elsewhere)
    await both.ask(500, "POST", WIDGETS, {**widget("one", size=1), "metadata": {"name": "one", "resourceVersion": "5"}})
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    await both.ask(400, "PUT", f"{WIDGETS}/one", widget("two", size=1))
    await both.ask(400, "PATCH", f"{WIDGETS}/one", {"metadata": {"name": "two"}}, MERGE)
    await both.ask(400, "PATCH", f"{WIDGETS}/one", {"metadata": {"namespace": "elsewhere"}}, MERGE)


@pytest.mark.parametrize("metadata", [{"labels": {"a": 1}}, {"labels": ["a"]}, {"finalizers": "a"}], ids=str)
async def test_metadata_that_is_none_is_not_understood(both: Both, metadata: dict[str, Any]) -> None:
    await both.ask(400, "POST", CONFIG_MAPS, config_map("one", metadata), wording=False)
    await both.ask(
        400, "POST", WIDGETS, widget("one", size=1) | {"metadata": {"name": "one", **metadata}}, wording=False
    )


async def test_object_without_a_namespace_loses_the_one_it_names(both: Both) -> None:
    roles = "/apis/rbac.authorization.k8s.io/v1/clusterroles"
    rules = [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}]
    metadata = {"name": both.namespace, "namespace": both.namespace}
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": metadata, "rules": rules}
    apply = f"{roles}/{{ns}}?fieldManager=a&force=true"
    for code, method, path, body, content_type in (
        (201, "POST", f"{roles}?fieldManager=m", role, JSON),
        (200, "PATCH", apply, role, APPLY),
        (200, "PATCH", f"{roles}/{{ns}}?fieldManager=p", {"metadata": {"namespace": both.namespace}}, MERGE),
        (200, "DELETE", f"{roles}/{{ns}}", None, JSON),
        (201, "PATCH", apply, role, APPLY),
    ):
        answer = await both.ask(code, method, path, body, content_type)
        assert "namespace" not in answer.get("metadata", {})


async def test_namespace_must_be_there_and_staying(both: Both) -> None:
    missing = await both.ask(404, "POST", WIDGETS.replace("{ns}", "nowhere"), widget("one", size=1))
    assert missing["details"] == {"name": "nowhere", "kind": "namespaces"}
    await both.ask(
        404, "PATCH", WIDGETS.replace("{ns}", "nowhere") + "/one?fieldManager=m", widget("one", size=1), APPLY
    )
    await both.ask(201, "POST", CONFIG_MAPS, config_map("held", {"finalizers": ["example.com/held"]}))

    await both.ask(200, "DELETE", "/api/v1/namespaces/{ns}")

    await both.ask(403, "POST", CONFIG_MAPS, config_map("late"))
    await both.ask(403, "PATCH", f"{CONFIG_MAPS}/late?fieldManager=m", config_map("late"), APPLY)


async def test_update_counts_generations_and_is_guarded_by_the_resource_version(both: Both) -> None:
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    await both.ask(422, "PUT", f"{WIDGETS}/one", widget("one", size=2))
    await both.ask(404, "PUT", f"{WIDGETS}/two", widget("two", size=2))
    await both.ask(409, "PATCH", f"{WIDGETS}/one", {"metadata": {"resourceVersion": "1"}}, MERGE)

    changed = await both.ask(200, "PATCH", f"{WIDGETS}/one", {"spec": {"size": 2}}, MERGE)
    assert changed["metadata"]["generation"] == 2
    labelled = await both.ask(200, "PATCH", f"{WIDGETS}/one", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    assert labelled["metadata"]["generation"] == 2
    await both.ask(422, "PATCH", f"{WIDGETS}/one", {"metadata": {"uid": "another"}}, MERGE)
    await both.ask(422, "PATCH", f"{WIDGETS}/one", {"spec": {"size": 99}}, MERGE)


async def test_config_map_is_replaced_without_a_version_and_a_lease_is_not(both: Both) -> None:
    await both.ask(201, "POST", CONFIG_MAPS, config_map("one", a="1"))
    replaced = await both.ask(200, "PUT", f"{CONFIG_MAPS}/one", config_map("one", b="2"))
    assert replaced["data"] == {"b": "2"}
    await both.ask(409, "PUT", f"{CONFIG_MAPS}/one", config_map("one", {"resourceVersion": "1"}))
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}, "spec": {}}
    await both.ask(201, "PUT", f"{LEASES}/one", lease)
    await both.ask(422, "PUT", f"{LEASES}/one", lease)


async def test_write_that_changes_nothing_makes_no_new_version(both: Both) -> None:
    await both.own("POST", CONFIG_MAPS, config_map("one", a="1"))
    before = await both.own("GET", f"{CONFIG_MAPS}/one")
    for body, content_type, query in (
        ({"data": {"a": "1"}}, MERGE, "fieldManager=m"),
        (config_map("one", a="1"), APPLY, "fieldManager=applier"),
        (config_map("one", a="1"), APPLY, "fieldManager=applier"),
    ):
        after = await both.own("PATCH", f"{CONFIG_MAPS}/one?{query}", body, content_type)
    again = await both.own("PATCH", f"{CONFIG_MAPS}/one?fieldManager=applier", config_map("one", a="1"), APPLY)
    for first, last, repeated in zip(before, after, again, strict=True):
        assert last["metadata"]["resourceVersion"] == repeated["metadata"]["resourceVersion"]
        assert first["metadata"]["resourceVersion"] != last["metadata"]["resourceVersion"], "a new owner is a change"


async def test_status_is_written_by_its_own_path_alone(both: Both) -> None:
    await both.ask(201, "POST", WIDGETS, {**widget("one", size=1), "status": {"phase": "Early"}})
    patch = {"status": {"phase": "Ready"}, "spec": {"size": 7}, "metadata": {"labels": {"a": "b"}}}

    written = await both.ask(200, "PATCH", f"{WIDGETS}/one/status?fieldManager=m", patch, MERGE)
    assert (written["status"], written["spec"]["size"]) == ({"phase": "Ready"}, 1)
    assert written["metadata"]["generation"] == 1
    patched = await both.ask(200, "PATCH", f"{WIDGETS}/one?fieldManager=m", {"status": {"phase": "Other"}}, MERGE)
    assert patched["status"] == {"phase": "Ready"}
    await both.ask(404, "PATCH", f"{WIDGETS}/two/status", {"status": {}}, MERGE)


async def test_delete_minds_preconditions_and_finalizers(both: Both) -> None:
    await both.ask(201, "POST", CONFIG_MAPS, config_map("one", {"finalizers": ["example.com/held"]}))
    await both.ask(409, "DELETE", f"{CONFIG_MAPS}/one", {"preconditions": {"uid": "another"}})
    await both.ask(409, "DELETE", f"{CONFIG_MAPS}/one", {"preconditions": {"resourceVersion": "1"}})

    left = await both.ask(200, "DELETE", f"{CONFIG_MAPS}/one", {"propagationPolicy": "Background"})
    assert left["metadata"]["finalizers"] == ["example.com/held"]
    for answer in await both.own("GET", f"{CONFIG_MAPS}/one"):
        assert answer["metadata"]["deletionTimestamp"]
    await both.ask(200, "DELETE", f"{CONFIG_MAPS}/one")
    await both.ask(422, "PATCH", f"{CONFIG_MAPS}/one", {"metadata": {"finalizers": ["example.com/more"]}}, MERGE)
    await both.ask(200, "PATCH", f"{CONFIG_MAPS}/one", {"metadata": {"finalizers": None}}, MERGE)
    await both.ask(404, "GET", f"{CONFIG_MAPS}/one")


@pytest.mark.parametrize("propagation", ["Foreground", "Orphan"])
async def test_propagation_that_waits_for_a_collector_holds_the_object(both: Both, propagation: str) -> None:
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))

    left = await both.ask(200, "DELETE", f"{WIDGETS}/one", {"propagationPolicy": propagation})

    assert left["metadata"]["finalizers"] == [{"Foreground": "foregroundDeletion", "Orphan": "orphan"}[propagation]]
    assert left["metadata"]["generation"] == 2


async def test_object_without_finalizers_is_gone_at_once(both: Both) -> None:
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    assert (await both.ask(200, "DELETE", f"{WIDGETS}/one"))["status"] == "Success"
    await both.ask(404, "DELETE", f"{WIDGETS}/one")


async def test_dry_run_says_what_would_be_and_stores_nothing(both: Both) -> None:
    await both.ask(201, "POST", f"{WIDGETS}?dryRun=All", widget("one", size=1))
    await both.ask(201, "PATCH", f"{WIDGETS}/one?dryRun=All&fieldManager=m", widget("one", size=1), APPLY)
    await both.ask(404, "GET", f"{WIDGETS}/one")
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    await both.ask(200, "PATCH", f"{WIDGETS}/one?dryRun=All&fieldManager=m&force=true", widget("one", size=2), APPLY)
    await both.ask(200, "DELETE", f"{WIDGETS}/one?dryRun=All")
    assert (await both.ask(200, "GET", f"{WIDGETS}/one"))["spec"]["size"] == 1


async def test_secret_is_stored_as_base64_with_a_type(both: Both) -> None:
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "stringData": {"a": "b"}}
    created = await both.ask(201, "POST", "/api/v1/namespaces/{ns}/secrets", secret)
    assert (created["data"], created["type"]) == ({"a": "Yg=="}, "Opaque")


async def test_body_that_is_too_large_is_refused_and_a_large_one_is_not(both: Both) -> None:
    await both.ask(201, "POST", CONFIG_MAPS, config_map("large", a="x" * 1_000_000))
    for server in (both.real, both.simulated):
        path = CONFIG_MAPS.replace("{ns}", both.namespace)
        code, answer = await server.ask("POST", path, config_map("larger", a="x" * 4_000_000), "application/json")
        assert (code, answer["reason"]) == (413, "RequestEntityTooLarge"), server.name


async def test_what_is_not_served_is_refused(both: Both) -> None:
    for path in ("/apis/nowhere.example.com/v1", "/api/v1/namespaces/{ns}/nothings", "/nowhere"):
        codes = [
            code for code, _ in [await server.ask("GET", path, None, "") for server in (both.real, both.simulated)]
        ]
        assert codes == [404, 404]
    await both.ask(404, "GET", f"{WIDGETS}/one")
    await both.ask(405, "POST", f"{CONFIG_MAPS}/one", {})
    await both.ask(201, "POST", CONFIG_MAPS, config_map("one"))
    await both.ask(415, "PATCH", f"{CONFIG_MAPS}/one", {}, "text/plain")
    await both.ask(400, "POST", CONFIG_MAPS, "no object", wording=False)


async def test_finalizer_of_a_custom_resource_needs_no_prefix(both: Both) -> None:
    made = widget("held", size=1)
    made["metadata"]["finalizers"] = ["held"]
    created = await both.ask(201, "POST", WIDGETS, made)
    assert created["metadata"]["finalizers"] == ["held"]
    held = config_map("held")
    held["metadata"]["finalizers"] = ["held"]
    await both.ask(422, "POST", CONFIG_MAPS, held)
    await both.ask(200, "PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": []}}, MERGE)


async def test_patch_may_move_fields_to_another_manager(both: Both) -> None:
    applied = config_map("moved", a="1", b="2")
    created = await both.ask(201, "PATCH", f"{CONFIG_MAPS}/moved?fieldManager=former", applied, APPLY)
    (entry,) = created["metadata"]["managedFields"]
    moved = {"metadata": {"managedFields": [{**entry, "manager": "latter"}]}}

    patched = await both.ask(200, "PATCH", f"{CONFIG_MAPS}/moved?fieldManager=latter", moved, MERGE)

    assert [each["manager"] for each in patched["metadata"]["managedFields"]] == ["latter"]
    left = await both.ask(200, "PATCH", f"{CONFIG_MAPS}/moved?fieldManager=latter", config_map("moved", a="1"), APPLY)
    assert left["data"] == {"a": "1"}
