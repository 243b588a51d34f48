"""A Watcher CR is Ready once every cluster that has the webhook has it as the Watcher CRs say now."""

from datetime import UTC, datetime
from typing import Any

import msgspec

from lifecycle_manager.routing import ManagerPaths
from lifecycle_manager.skr_webhook import WATCHER_RECORD
from lifecycle_manager.skr_webhook.watcher_status import status_of, watchers_digest
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
