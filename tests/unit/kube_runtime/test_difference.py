"""What an apply would change, told without showing what is secret."""

from typing import Any

from kube_runtime import InventoryEntry
from kube_runtime.apply.difference import difference_between
from tests.cpu_time import is_linear

ENTRY = InventoryEntry("", "v1", "ConfigMap", "shop", "one")


def config_map(resource_version: str = "1", **data: str) -> dict[str, Any]:
    metadata = {"name": "one", "namespace": "shop", "resourceVersion": resource_version, "managedFields": [{}]}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data, "status": {"x": 1}}


def test_change_shows_the_lines_that_differ() -> None:
    found = difference_between(ENTRY, 0, config_map(a="1", b="2"), config_map("2", a="1", b="3"))

    changed = [line for line in found.text.splitlines() if line[:1] in "+-" and line[:3] not in {"+++", "---"}]
    assert found.action == "change"
    assert changed == ['-  b: "2"', '+  b: "3"']


def test_what_only_the_server_counts_is_no_difference() -> None:
    assert difference_between(ENTRY, 0, config_map("1", a="1"), config_map("7", a="1")).action == "none"


def test_new_object_is_shown_whole() -> None:
    found = difference_between(ENTRY, 0, None, config_map(a="1"))

    assert found.action == "create"
    assert "+kind: ConfigMap\n" in found.text
    assert "managedFields" not in found.text
    assert "status" not in found.text


SECRET = InventoryEntry("", "v1", "Secret", "shop", "one")


def secret(**data: str) -> dict[str, Any]:
    return {**config_map(**data), "kind": "Secret"}


def test_values_of_secrets_are_not_shown() -> None:
    found = difference_between(SECRET, 0, secret(same="c2FtZQ==", other="b2xk"), secret(same="c2FtZQ==", other="bmV3"))

    assert found.action == "change"
    assert not {"c2FtZQ==", "b2xk", "bmV3"} & set(found.text.replace(":", " ").split())
    assert "other: (hidden, the value now)" in found.text
    assert "same: (hidden)" in found.text


def test_values_that_kubectl_keeps_in_an_annotation_of_a_secret_are_not_shown() -> None:
    key = "kubectl.kubernetes.io/last-applied-configuration"
    live, then = secret(password="aHVudGVyMg=="), secret(password="aHVudGVyMg==")
    live["metadata"] |= {"annotations": {key: '{"stringData":{"password":"hunter2"}}', "note": "shown"}}
    then["metadata"] |= {"annotations": live["metadata"]["annotations"], "labels": {"new": "yes"}}

    found = difference_between(SECRET, 0, live, then)

    assert found.action == "change"
    assert "hunter2" not in found.text
    assert f"   {key}: (hidden)\n" in found.text
    assert "note: shown" in found.text


def test_large_objects_of_a_hostile_cluster_are_compared_in_linear_time() -> None:
    def objects(lines: int) -> list[dict[str, Any]]:
        now = {f"k{number:06}": "same" for number in range(lines)}
        then = {name: "same" if number % 2 else str(number) for number, name in enumerate(now)}
        return [config_map(**now), config_map(**then)]

    def compare(objects: list[dict[str, Any]]) -> None:
        assert '+  k000000: "0"\n' in difference_between(ENTRY, 0, *objects).text

    assert is_linear(compare, objects, size=2_000)


def test_of_large_objects_all_between_the_first_and_last_change_is_shown() -> None:
    now = {f"k{number:06}": "same" for number in range(3_000)}
    changed = difference_between(ENTRY, 0, config_map(**now), config_map(**now | {"k000010": "b", "k000012": "c"})).text
    assert changed.splitlines()[2:] == [
        "@@ -17,3 +17,3 @@",
        *("-  k000010: same", "-  k000011: same", "-  k000012: same"),
        *("+  k000010: b", "+  k000011: same", "+  k000012: c"),
    ]
    assert difference_between(ENTRY, 0, config_map(**now), config_map(**now)).action == "none"
