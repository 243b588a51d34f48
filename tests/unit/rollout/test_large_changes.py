"""The brake on changes: which versions go in waves although no strategy is named."""

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace as with_fields

from kube_runtime import ObjectKey
from kube_runtime.informer.cache import Cache
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.controller import Offers
from lifecycle_manager.options.kymas import RolloutSettings
from lifecycle_manager.rollout.schedule import Schedule
from lifecycle_manager.rollout.target import MANIFESTS_BY_MODULE, RolloutTarget, changed_clusters
from lifecycle_manager.rollout.waves import DEFAULT_WAVES
from lifecycle_manager.skr.removals import FREE_CLUSTERS, max_changed
from lifecycle_manager_api import Manifest, ModuleRelease, ModuleRollout, ModuleRolloutSpec, names
from tests import builders
from tests.clocks import ManualClock

MODULE = "cloud-resources"
"""Of the builders, by default."""


def changed(version: str, *manifests: Manifest, known: tuple[str, ...] = ()) -> int:
    return changed_clusters({"regular": RolloutTarget(version)}, manifests, known)


def fleet_with(
    *manifests: Manifest, max_changed: str, clusters: int = 100, restricted: tuple[str, ...] = ()
) -> tuple[Schedule, Cache[Any], Cache[Any]]:
    """Return the schedule of a fleet, with its caches of releases and rollouts."""
    installed: Cache[Any] = Cache([MANIFESTS_BY_MODULE])
    for each in manifests:
        installed.put(ObjectKey("kcp-system", each.metadata.name), each)
    kymas: Cache[Any] = Cache()
    for number in range(clusters):
        kymas.put(ObjectKey("kcp-system", str(number)), builders.kyma(str(number)))
    releases, rollouts = Cache[Any](), Cache[Any]()
    by_module = SimpleNamespace(by_index=lambda index, value: installed.by_index(index.name, value))
    caches = [SimpleNamespace(cache=each) for each in (releases, rollouts)]
    templates: Any = SimpleNamespace(cache=Cache())
    offers: Any = Offers(templates, caches[0], restricted=frozenset(restricted))  # type: ignore[arg-type]
    readable, known_kymas = SimpleNamespace(set=lambda _: None), SimpleNamespace(cache=kymas, get=kymas.get)
    settings = RolloutSettings(max_changed=max_changed)
    parts: Any = (*caches, by_module, known_kymas, offers, ManualClock(), settings, readable)
    return Schedule(*parts), releases, rollouts


def put_release(cache: Cache[Any], version: str, **annotations: str) -> None:
    found = builders.release(regular=version, metadata={"annotations": annotations})
    cache.put(ObjectKey("kcp-system", MODULE), msgspec.convert(msgspec.to_builtins(found), DatedReleaseMeta))


def rollout_of(version: str, phase: Any, **spec: Any) -> ModuleRollout:
    found = ModuleRolloutSpec(module_name=MODULE, channel="regular", version=version, strategy=DEFAULT_WAVES, **spec)
    rollout = ModuleRollout(metadata=builders.manifest().metadata, spec=found)
    return with_fields(rollout, status=with_fields(rollout.status, phase=phase))


def test_number_is_taken_as_it_is() -> None:
    assert [max_changed(each, 1000) for each in ("0", "3", "20%", "100%")] == [0, 3, 200, 1000]


@given(amount=st.integers(0, 100), fewer=st.integers(0, 20_000), more=st.integers(0, 20_000))
def test_share_is_monotone_and_never_below_the_free_clusters(amount: int, fewer: int, more: int) -> None:
    limit = max_changed(f"{amount}%", fewer)
    assert FREE_CLUSTERS <= limit <= max(FREE_CLUSTERS, fewer)
    assert limit <= max_changed(f"{amount}%", fewer + more)


@given(versions=st.lists(st.sampled_from(["1.0.0", "2.0.0", "3.0.0", "latest"])))
def test_each_cluster_counts_once_and_none_that_has_the_version_or_a_higher_one(versions: list[str]) -> None:
    manifests = [builders.manifest(MODULE, each, kyma=str(number)) for number, each in enumerate(versions)]
    assert changed("2.0.0", *manifests) == versions.count("1.0.0") + versions.count("latest")


def test_what_a_release_does_not_change_does_not_count() -> None:
    assert changed("2.0.0", builders.manifest(channel="fast")) == 0
    assert changed("2.0.0", builders.manifest(annotations={names.IS_UNMANAGED: "true"})) == 0
    assert changed("2.0.0", builders.manifest(deletionTimestamp="2026-11-01T10:00:00Z", finalizers=["it"])) == 0


def test_cluster_that_a_rollout_changed_counts_until_this_replica_knows_the_rollout() -> None:
    manifest = builders.manifest(version="2.0.0")
    release = ModuleRelease(version="2.0.0", rollout="regular-1", at=builders.NOW)
    manifest = with_fields(manifest, status=with_fields(manifest.status, release=release))
    assert changed("2.0.0", manifest) == 1
    assert changed("2.0.0", manifest, known=("regular-1",)) == 0


def test_large_change_is_braked_from_the_moment_at_which_it_is_seen() -> None:
    manifests = [builders.manifest(kyma=str(number)) for number in range(3)]
    planned, releases, rollouts = fleet_with(*manifests, max_changed="2")
    put_release(releases, "0.1.0")
    assert planned.in_force() == {}
    put_release(releases, "0.2.0")
    assert planned.in_force() == {MODULE: {}}, "no rollout has begun, so that every cluster keeps its version"

    for phase in ("Progressing", "Halted", "Completed", "Superseded"):
        rollouts.put(ObjectKey("kcp-system", "it"), rollout_of("0.2.0", phase))
        assert MODULE in planned.in_force(), "the clusters still have the former version"


def test_small_change_is_not_braked_but_a_rollout_that_began_goes_on() -> None:
    planned, releases, rollouts = fleet_with(builders.manifest(), builders.manifest(kyma="b"), max_changed="2")
    put_release(releases, "0.2.0")
    assert planned.in_force() == {}

    key = ObjectKey("kcp-system", "it")
    for phase, governs in (("Progressing", True), ("Halted", True), ("Completed", False), ("Superseded", False)):
        rollouts.put(key, rollout_of("0.2.0", phase))
        assert (MODULE in planned.in_force()) is governs
    rollouts.put(key, rollout_of("0.1.0", "Completed", former_version="0.2.0", undoes="another"))
    assert MODULE in planned.in_force(), "what was taken back does not come again"


def test_module_with_a_strategy_is_governed_whatever_changes() -> None:
    planned, releases, _ = fleet_with(max_changed="100%")
    put_release(releases, "0.1.0", **{names.ROLLOUT_STRATEGY: "careful"})
    assert planned.in_force() == {MODULE: {}}


@pytest.mark.parametrize("restricted", [(MODULE,), ()])
def test_restricted_module_without_a_selector_is_held_in_a_large_fleet(restricted: tuple[str, ...]) -> None:
    everywhere = [builders.manifest(kyma=str(number), name=f"{number}-{MODULE}") for number in range(30)]
    schedule, releases, _ = fleet_with(*everywhere, max_changed="20%", restricted=restricted)
    document = msgspec.to_builtins(builders.release(regular="1.0.0"))
    document["metadata"]["managedFields"] = [{"manager": "team", "time": "2026-11-01T10:00:00Z"}]
    releases.put(ObjectKey("kcp-system", MODULE), msgspec.convert(document, DatedReleaseMeta))
    assert schedule.timing().held_removals.keys() == {*restricted}
