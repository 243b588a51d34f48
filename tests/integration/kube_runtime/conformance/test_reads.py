"""Get, list, watch and discovery: both servers say the same."""

import asyncio
from functools import partial

from tests.integration.kube_runtime.conformance.both import APPLY, MERGE, Both, Server, described
from tests.integration.kube_runtime.conformance.widgets import CRDS, GROUP, WIDGETS, config_map, definition, widget
from tests.waiting import eventually

CONFIG_MAPS = "/api/v1/namespaces/{ns}/configmaps"
EVENTS = "/apis/events.k8s.io/v1/namespaces/{ns}/events"


async def labelled_config_maps(both: Both, count: int = 5) -> None:
    for number in range(count):
        await both.ask(201, "POST", CONFIG_MAPS, config_map(f"n{number}", {"labels": {"n": str(number)}}))


async def test_selectors_choose_by_labels_and_names(both: Both) -> None:
    await labelled_config_maps(both)
    for query, count in {
        "labelSelector=n%3D1": 1,
        "labelSelector=n!%3D1,n": 4,
        "labelSelector=n+in+(0,1,9)": 2,
        "labelSelector=n+notin+(0,1),n": 3,
        "labelSelector=n": 5,
        "labelSelector=n,n!%3D0,n!%3D1": 3,
        "fieldSelector=metadata.name%3Dn2": 1,
        "fieldSelector=metadata.namespace%3Dnowhere": 0,
        "labelSelector=n&fieldSelector=metadata.name!%3Dn2": 4,
    }.items():
        found = await both.ask(200, "GET", f"{CONFIG_MAPS}?{query}")
        assert len([item for item in found["items"] if item["metadata"]["name"].startswith("n")]) == count, query
    await both.ask(400, "GET", f"{CONFIG_MAPS}?labelSelector=a+b", wording=False)
    await both.ask(400, "GET", f"{CONFIG_MAPS}?fieldSelector=data.x%3D1", wording=False)
    await both.ask(400, "GET", f"{WIDGETS}?fieldSelector=spec.x%3D1")
    await both.ask(400, "GET", f"{CONFIG_MAPS}?limit=x")


async def test_events_are_selected_by_what_they_are_about(both: Both) -> None:
    for name in ("one", "two"):
        about = {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "namespace": "default"}
        event = {
            "apiVersion": "events.k8s.io/v1",
            "kind": "Event",
            "metadata": {"name": f"event-{name}"},
            "regarding": about,
            "reason": "Tested",
            "type": "Normal",
            "action": "Test",
            "eventTime": "2026-11-22T10:00:00.000000Z",
            "reportingController": "test",
            "reportingInstance": "test",
        }
        await both.own("POST", EVENTS, event)
    for query, count in (("regarding.name%3Done", 1), ("regarding.kind%3DConfigMap,reason%3DTested", 2)):
        for found in await both.own("GET", f"{EVENTS}?fieldSelector={query}"):
            assert len(found["items"]) == count, query
    await both.ask(400, "GET", f"{EVENTS}?fieldSelector=note%3Dx", wording=False)


async def test_pages_are_of_one_moment(both: Both) -> None:
    for number in range(5):
        await both.ask(201, "POST", WIDGETS, widget(f"n{number}", size=1))
    first = await both.own("GET", f"{WIDGETS}?limit=2")
    await both.ask(200, "DELETE", f"{WIDGETS}/n3")
    await both.ask(201, "POST", WIDGETS, widget("n9", size=1))
    await both.ask(200, "PATCH", f"{WIDGETS}/n4", {"spec": {"size": 2}}, MERGE)

    seen = []
    for server, page in zip((both.real, both.simulated), first, strict=True):
        assert page["metadata"]["remainingItemCount"] == 3
        found = list(page["items"])
        while page["metadata"].get("continue"):
            target = f"{WIDGETS}?limit=2&continue={page['metadata']['continue']}".replace("{ns}", both.namespace)
            _, page = await server.ask("GET", target, None, "")  # noqa: PLW2901 - the next page
            found += page["items"]
        seen.append([(item["metadata"]["name"], item["spec"]["size"]) for item in found])
    assert seen[0] == seen[1] == [(f"n{number}", 1) for number in range(5)]


async def test_version_of_the_future_is_refused_for_a_while(both: Both) -> None:
    refused = await both.ask(504, "GET", f"{CONFIG_MAPS}?resourceVersion=999999999")
    assert refused["details"]["retryAfterSeconds"] == 1


async def test_watch_tells_changes_after_a_version(both: Both) -> None:
    start = await both.own("GET", WIDGETS)
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    await both.ask(200, "PATCH", f"{WIDGETS}/one", {"spec": {"size": 2}}, MERGE)
    await both.ask(200, "PATCH", f"{WIDGETS}/one/status", {"status": {"phase": "Ready"}}, MERGE)
    await both.ask(200, "PATCH", f"{WIDGETS}/one", {"metadata": {"labels": {"a": "b"}}}, MERGE)
    await both.ask(200, "PATCH", f"{WIDGETS}/one", {"metadata": {"labels": None}}, MERGE)
    await both.ask(
        201, "POST", WIDGETS, {**widget("held", size=1), "metadata": {"name": "held", "finalizers": ["a.b/c"]}}
    )
    await both.ask(200, "DELETE", f"{WIDGETS}/held")
    await both.ask(200, "PATCH", f"{WIDGETS}/held", {"metadata": {"finalizers": []}}, MERGE)
    await both.ask(200, "DELETE", f"{WIDGETS}/one")
    last = {**widget("held", size=9), "metadata": {"name": "held", "labels": {"a": "last"}}}
    await both.ask(201, "POST", WIDGETS, last)

    whole = ["ADDED", "MODIFIED", "MODIFIED", "MODIFIED", "MODIFIED", "ADDED", "MODIFIED", "DELETED", "DELETED"]
    expected = {
        "": [*whole, "ADDED"],
        "&labelSelector=a": ["ADDED", "DELETED", "ADDED"],
        "&fieldSelector=metadata.name%3Dheld": ["ADDED", "MODIFIED", "DELETED", "ADDED"],
    }
    for query, kinds in expected.items():
        received = await asyncio.gather(
            *(
                server.lines(
                    f"{WIDGETS}?watch=true&resourceVersion={page['metadata']['resourceVersion']}{query}".replace(
                        "{ns}", both.namespace
                    ),
                    lambda event: event["object"]["spec"]["size"] == 9,
                )
                for server, page in zip((both.real, both.simulated), start, strict=True)
            )
        )
        assert described(received[0]) == described(received[1])
        assert [event["type"] for event in received[0]] == kinds
        versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in received[1]]
        assert versions == sorted(versions)


async def test_watch_can_begin_with_what_is_there(both: Both) -> None:
    await both.ask(201, "POST", WIDGETS, widget("one", size=1))
    await both.ask(201, "POST", WIDGETS, widget("two", size=1))
    path = f"{WIDGETS}?watch=true&allowWatchBookmarks=true"

    for query in ("", "&resourceVersionMatch=NotOlderThan&sendInitialEvents=true"):
        events = await both.watch(f"{path}{query}", lambda event: bool(event["object"]["metadata"].get("annotations")))
        assert [kind for kind, _ in events] == ["ADDED", "ADDED", "BOOKMARK"]
        assert events[-1][1] == {"k8s.io/initial-events-end": "true"}


async def test_version_that_is_too_old_is_reported_within_the_watch(both: Both) -> None:
    for server in (both.real, both.simulated):
        path = f"{WIDGETS}?watch=true&resourceVersion=1&timeoutSeconds=100".replace("{ns}", both.namespace)
        (event,) = await server.lines(path)
        assert event["type"] == "ERROR"
        assert (event["object"]["code"], event["object"]["reason"]) == (410, "Expired")


async def test_definition_makes_a_kind_and_takes_it_away(both: Both) -> None:
    plural = f"gadgets{both.namespace[-8:]}"
    crd = definition(plural, f"Gadget{both.namespace[-8:]}", "Cluster")
    await both.own("POST", CRDS, crd)
    await both.ask(409, "POST", CRDS, crd)
    await both.ask(422, "POST", CRDS, {**definition("others", "Other"), "metadata": {"name": "wrong"}})
    path = f"/apis/{GROUP}/v1/{plural}"
    for server in (both.real, both.simulated):
        await eventually(partial(_is_served, server, path))
        await eventually(partial(_is_discovered, server, f"/apis/{GROUP}/v1", plural))
        _, made = await server.ask("GET", f"{CRDS}/{plural}.{GROUP}", None, "")
        conditions = {each["type"]: each["status"] for each in made["status"]["conditions"]}
        assert conditions == {"NamesAccepted": "True", "Established": "True"}
        assert made["status"]["storedVersions"] == ["v1"]
        assert made["status"]["acceptedNames"]["plural"] == plural
        _, resources = await server.ask("GET", f"/apis/{GROUP}/v1", None, "")
        entry = next(each for each in resources["resources"] if each["name"] == plural)
        assert (entry["namespaced"], entry["kind"]) == (False, crd["spec"]["names"]["kind"])
        assert "watch" in entry["verbs"]
        assert f"{plural}/status" in [each["name"] for each in resources["resources"]]

    await both.own("DELETE", f"{CRDS}/{plural}.{GROUP}")

    for server in (both.real, both.simulated):
        await eventually(partial(_are_gone, server, path, f"{CRDS}/{plural}.{GROUP}"))


async def test_discovery_names_what_clients_look_for(both: Both) -> None:
    for server in (both.real, both.simulated):
        _, core = await server.ask("GET", "/api/v1", None, "")
        config_maps = next(each for each in core["resources"] if each["name"] == "configmaps")
        assert (config_maps["kind"], config_maps["namespaced"], config_maps["shortNames"]) == (
            "ConfigMap",
            True,
            ["cm"],
        )
        await eventually(partial(_is_discovered, server, "/apis", GROUP))
        _, groups = await server.ask("GET", "/apis", None, "")
        assert {"apps", "coordination.k8s.io", GROUP} <= {group["name"] for group in groups["groups"]}
        assert groups["groups"][0]["preferredVersion"]["groupVersion"]
        _, group = await server.ask("GET", "/apis/apps", None, "")
        assert group["preferredVersion"] == {"groupVersion": "apps/v1", "version": "v1"}
        _, version = await server.ask("GET", "/version", None, "")
        assert version["gitVersion"].startswith("v1.")


async def test_versions_of_a_kind_serve_the_same_objects(both: Both) -> None:
    suffix = both.namespace[-8:]
    crd = definition(f"gizmos{suffix}", f"Gizmo{suffix}")
    (version,) = crd["spec"]["versions"]
    crd["spec"]["versions"].append({**version, "name": "v2", "storage": False})
    await both.own("POST", CRDS, crd)
    kind = crd["spec"]["names"]["kind"]
    first, second = (f"/apis/{GROUP}/{name}/namespaces/{{ns}}/gizmos{suffix}" for name in ("v1", "v2"))
    for server in (both.real, both.simulated):
        await eventually(partial(_is_served, server, second.replace("{ns}", both.namespace)))
    start = await both.own("GET", second)

    made = {**widget("one", size=1), "kind": kind}
    await both.ask(201, "POST", first, made)
    await both.ask(200, "GET", f"{second}/one")
    applied = {**made, "apiVersion": f"{GROUP}/v2", "spec": {"size": 1, "color": "green"}}
    await both.ask(409, "PATCH", f"{second}/one?fieldManager=m", applied, APPLY)
    await both.ask(200, "PATCH", f"{second}/one?fieldManager=m&force=true", applied, APPLY)
    await both.ask(200, "PATCH", f"{second}/one?fieldManager=n", {"spec": {"size": 3}}, MERGE)
    listed = await both.ask(200, "GET", first)
    assert [item["spec"] for item in listed["items"]] == [{"size": 3, "color": "green"}]
    for server, page in zip((both.real, both.simulated), start, strict=True):
        query = f"watch=true&resourceVersion={page['metadata']['resourceVersion']}"
        target = f"{second}?{query}".replace("{ns}", both.namespace)
        events = await server.lines(target, lambda event: event["object"]["spec"]["size"] == 3)
        assert [(event["type"], event["object"]["apiVersion"]) for event in events] == [
            ("ADDED", f"{GROUP}/v2"),
            ("MODIFIED", f"{GROUP}/v2"),
            ("MODIFIED", f"{GROUP}/v2"),
        ]


async def _is_served(server: Server, path: str) -> bool:
    code, _ = await server.ask("GET", path, None, "")
    return code == 200


async def _is_discovered(server: Server, path: str, name: str) -> bool:
    """Tell whether a group or a kind is listed, as it is some time after it is served."""
    _, listed = await server.ask("GET", path, None, "")
    return any(each["name"] == name for each in listed.get("resources", listed.get("groups", [])))


async def _are_gone(server: Server, *paths: str) -> bool:
    return [(await server.ask("GET", path, None, ""))[0] for path in paths] == [404] * len(paths)
