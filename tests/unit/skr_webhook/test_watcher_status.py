"""A Watcher CR is Ready once every cluster that has the webhook has it as the Watcher CRs say now."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from lifecycle_manager.routing import ManagerPaths
from lifecycle_manager.skr_webhook import WATCHER_RECORD
from lifecycle_manager.skr_webhook.watcher_status import status_of, watchers_digest, watchers_in_force
from lifecycle_manager_api import Kyma, Watcher
from tests import builders
from tests.security.events.subscribers import into

NOW = datetime(2026, 11, 1, tzinfo=UTC)


def watcher(name: str = "one", *, generation: int = 1, manager: str = "") -> Watcher:
    spec = {
        "field": "spec",
        "manager": manager,
        "gateway": {"selector": {}},
        "resourceToWatch": {"group": "", "version": "v1", "resource": "configmaps"},
        "serviceInfo": {"name": "a", "namespace": "b", "port": 1},
    }
    metadata = {"name": name, "namespace": "kcp-system", "uid": name, "generation": generation}
    return msgspec.convert({"metadata": metadata, "spec": spec}, Watcher)


def other(one: Watcher, **spec: Any) -> Watcher:
    document: dict[str, Any] = msgspec.to_builtins(one)
    return msgspec.convert(document | {"spec": document["spec"] | spec}, Watcher)


def cluster(name: str, digest: str, *, reason: str = "WatcherReady", status: str = "True") -> Kyma:
    condition = {"type": "SKRWebhook", "status": status, "reason": reason, "message": ""}
    return builders.kyma(name, status={"conditions": [condition]}, annotations={WATCHER_RECORD: f"documents.{digest}"})


def test_change_is_processing_until_the_last_cluster_has_it() -> None:
    old, new = watcher(generation=1), watcher(generation=2)
    behind, done = watchers_digest([old]), watchers_digest([new])
    status = status_of(new, [new], [cluster("a", done), cluster("b", behind)], NOW)
    assert (status.state, status.conditions[0].status, status.observed_generation) == ("Processing", "False", 2)
    assert "1 of 2" in status.conditions[0].message
    status = status_of(new, [new], [cluster("a", done), cluster("b", done)], NOW)
    assert (status.state, status.conditions[0].status) == ("Ready", "True")


def test_cluster_without_a_webhook_keeps_nobody_waiting() -> None:
    one = watcher()
    starting = cluster("new", "", reason="WatcherStarting", status="False")
    assert status_of(one, [one], [starting], NOW).state == "Ready"
    broken = cluster("broken", "", reason="EventPathBroken", status="False")
    assert status_of(one, [one], [broken], NOW).state == "Processing"


def test_every_manager_that_a_watcher_names_has_a_path() -> None:
    class Informer:
        class cache:  # noqa: N801 - in the place of an informer's cache
            @staticmethod
            def list() -> list[Watcher]:
                return [watcher("one", manager="painter"), watcher("two")]

    taken: list[Any] = []
    informer: Any = Informer()
    paths = ManagerPaths(informer, into(taken))
    assert set(paths) == {"lifecycle-manager", "painter"}
    assert paths.get("stranger") is None
    assert paths.get("painter") is not None


LONG = "l" * 64


@pytest.mark.parametrize(
    ("flawed", "said"),
    [
        pytest.param(watcher(manager="Painter"), "manager", id="capital letters in the path"),
        pytest.param(watcher(manager="painter/of-walls"), "manager", id="two segments of a path"),
        pytest.param(watcher(manager=".."), "manager", id="a path that climbs"),
        pytest.param(other(watcher(), labelsToWatch={"a b": "c"}), "labelsToWatch", id="a label's name"),
        pytest.param(other(watcher(), labelsToWatch={"a": LONG}), "labelsToWatch", id="a label's value"),
        pytest.param(
            other(watcher(), resourceToWatch={"group": "", "version": "", "resource": "a"}), "version", id="no version"
        ),
        pytest.param(watcher("canary"), "canary", id="the name of a webhook of our own"),
        pytest.param(watcher("n" * 240), "longer", id="a long name"),
    ],
)
def test_watcher_that_no_api_server_would_take_keeps_no_other_back(flawed: Watcher, said: str) -> None:
    """A webhook configuration is taken whole or not at all."""
    good = watcher("good")
    assert watchers_in_force([flawed, good]) == (good,)
    status = status_of(flawed, [flawed, good], [], NOW)
    assert (status.state, status.conditions[0].status, status.conditions[0].reason) == ("Error", "False", "Invalid")
    assert said in status.conditions[0].message
    digest = watchers_digest([good])
    assert status_of(good, [flawed, good], [cluster("a", digest)], NOW).state == "Ready"
