"""What is left to do after a rollout was completed, and where its channel or its ModuleReleaseMeta is gone."""

from dataclasses import dataclass, replace
from datetime import timedelta

from lifecycle_manager.module_rollouts.snapshot import RolloutSnapshot
from lifecycle_manager_api import ModuleRollout, State, find
from tests import builders
from tests.unit.module_rollouts.fleet import Fleet, released, strategy

UNREACHABLE = {"type": "SKRReachable", "status": "False", "reason": "Unreachable", "message": "no answer"}


@dataclass(eq=False)
class Channel(Fleet):
    """A channel that can be removed from its ModuleReleaseMeta."""

    is_removed: bool = False
    is_awaited: bool = False

    def seen(self) -> RolloutSnapshot:
        seen = replace(super().seen(), is_awaited=self.is_awaited)
        return replace(seen, target=None) if self.is_removed else seen


def channel(*clusters: str, version: str = "1.0.0", max_concurrent: str = "100%") -> Channel:
    rules = {"name": "canary", "soak": "0s", "maxConcurrent": max_concurrent}
    found = Channel(strategy(rules, soak="0s"), released("1.0.0"))
    found.add(*clusters, version=version)
    found.run(10)
    assert (found.latest.status.phase, found.on("1.0.0")) == ("Completed", len(clusters))
    return found


def test_cluster_that_comes_back_late_gets_the_version_although_others_failed_later() -> None:
    found = channel(*["canary"] * 4)
    found.release = released("2.0.0")
    labels = found.kymas["kyma-000"].metadata.labels
    away = {"state": "Error", "conditions": [UNREACHABLE]}
    found.kymas["kyma-000"] = builders.kyma("kyma-000", labels=labels, status=away)
    found.run(60)
    assert (found.latest.status.phase, found.on("2.0.0")) == ("Completed", 3)
    found.now += timedelta(days=20)
    for name in ("kyma-001", "kyma-002"):
        found.report(name, State.ERROR, "ImagePullBackOff")
    found.settle()
    for name in ("kyma-001", "kyma-002"):
        found.report(name, State.READY)
    found.settle()
    found.kymas["kyma-000"] = builders.kyma("kyma-000", labels=labels)
    found.run(60)
    assert (found.latest.status.phase, found.on("2.0.0")) == ("Completed", 4)


def test_release_meta_that_was_deleted_and_created_again_rolls_its_next_version_out() -> None:
    found = channel("canary", "canary", version="0.9.0")
    found.now += timedelta(days=10)
    names = {each.metadata.name for each in found.rollouts}
    found.rollouts.clear()  # the garbage collector deletes them with their owner
    found.release = released("2.0.0")
    found.settle()
    assert found.latest.metadata.name not in names
    found.run(10)
    assert (found.latest.status.phase, found.on("2.0.0")) == ("Completed", 2)


def test_rollout_of_a_removed_channel_releases_nothing_more_and_does_not_halt() -> None:
    found = channel("canary", "canary", max_concurrent="1")
    found.release = released("2.0.0")
    found.settle()
    had = {name: each.status.release for name, each in found.manifests.items()}
    found.is_removed = True
    for _ in range(40):  # the Kymas keep what they have
        found.settle()
        found.now += timedelta(minutes=1)
    assert found.latest.status.phase == "Superseded"
    assert {name: each.status.release for name, each in found.manifests.items()} == had


def test_channel_that_returns_after_the_deadline_gives_its_clusters_their_time_anew() -> None:
    """Their Kymas could not install the version meanwhile: that is no failure of it."""
    found = channel("canary", "canary", max_concurrent="100%")
    found.release = released("2.0.0")
    found.settle()
    found.is_removed = True
    found.settle()
    assert found.latest.status.phase == "Superseded"
    found.now += timedelta(days=1)
    found.is_removed = False
    found.settle()
    assert (found.latest.status.phase, found.latest.status.failed) == ("Progressing", 0)
    assert {each.since for each in found.latest.status.under_way} == {found.now}
    found.run(3)
    assert (found.latest.status.phase, found.on("2.0.0")) == ("Completed", 2)


def test_rollout_of_a_mandatory_module_goes_on_where_its_template_is_created_again() -> None:
    found = channel("canary", "canary", max_concurrent="1")
    found.release = released("2.0.0")
    found.settle()
    before = found.latest.status
    found.is_removed = found.is_awaited = True
    found.settle()
    assert found.latest.status == before


def test_rollout_is_ready_once_nothing_is_left_to_be_done() -> None:
    """`kubectl wait --for=condition=Ready` ends, and tools that read kstatus do not show it as in progress for ever."""
    found = channel("canary", "canary", version="0.9.0")
    found.release = released("2.0.0")
    found.settle()
    assert ready_of(found.latest) == ("False", "Progressing")
    found.steer(halted=True)
    found.settle()
    replaced = found.latest.metadata.name
    found.release = released("3.0.0")
    found.run(10)
    assert ready_of(found.latest) == ("True", "AllWavesCompleted")
    (superseded,) = (each for each in found.rollouts if each.metadata.name == replaced)
    assert ready_of(superseded) == ("True", "Superseded")
    assert ready_of(superseded, "Halted") == ("False", "Superseded")


def ready_of(rollout: ModuleRollout, kind: str = "Ready") -> tuple[str, str]:
    condition = find(rollout.status.conditions, kind)
    assert condition is not None
    return condition.status, condition.reason
