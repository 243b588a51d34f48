"""The laws of a Kyma's plan, for generated fleets: it settles, and installs nothing that it must not install."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from lifecycle_manager.kyma import plan as planned
from lifecycle_manager.kyma.resolution import Installed
from lifecycle_manager.kyma.snapshot import SkrView, Snapshot
from lifecycle_manager.module_catalog import Offer, excluded, module_of, module_of_manifest
from lifecycle_manager.module_catalog.offer import version_of
from lifecycle_manager.rollout import Timing
from lifecycle_manager_api import Kyma, KymaSpec, Manifest, ModuleReleaseMeta, ModuleTemplate, names
from tests import builders
from tests.unit.kyma.generated_fleets import INSTALLED, LABELS, SPECS, TIMINGS, offers

LAWS = settings(max_examples=60)
Catalog = tuple[list[ModuleTemplate], list[ModuleReleaseMeta]]


@dataclass
class Fleet:
    """One Kyma and its cluster, in which plans come true at once."""

    kyma: Kyma
    inner: Kyma
    offer: Offer
    timing: Timing
    manifests: dict[str, Manifest] = field(default_factory=dict)

    @classmethod
    def of(
        cls, requested: KymaSpec, labels: dict[str, str], catalog: Catalog, there: dict[str, Installed], timing: Timing
    ) -> "Fleet":
        kyma = builders.kyma(labels=labels, records={"kymaCrd": "hash"})
        shown, annotations = planned.visible_metadata(kyma)
        inner = builders.kyma("default", labels=shown, annotations=annotations, namespace="kyma-system")
        manifests = [builders.manifest(module, each.version, channel=each.channel) for module, each in there.items()]
        return cls(
            kyma,
            msgspec.structs.replace(inner, spec=requested),
            Offer.of(*catalog),
            timing,
            {each.metadata.name: each for each in manifests},
        )

    def turn(self) -> planned.Plan:
        """Plan, and have what was planned come true."""
        view = SkrView(self.inner)
        manifests = tuple(self.manifests.values())
        decided = planned.plan(Snapshot(self.timing, self.kyma, self.offer, view, "hash", manifests=manifests))
        for action in (*decided.in_skr, *decided.in_kcp):
            self._carry_out(action)
        return decided

    def _carry_out(self, action: Any) -> None:
        match action:
            case planned.ApplyManifest(manifest):
                self.manifests[manifest.metadata.name] = manifest
            case planned.MarkUnmanaged(name):
                held = self.manifests[name]
                marks = {**held.metadata.annotations, names.IS_UNMANAGED: "true"}
                metadata = msgspec.structs.replace(held.metadata, annotations=marks)
                self.manifests[name] = msgspec.structs.replace(held, metadata=metadata)
            case planned.DeleteManifest(name):
                del self.manifests[name]
            case planned.WriteStatus(status):
                self.kyma = msgspec.structs.replace(self.kyma, status=status)
            case planned.WriteSkrStatus(status):
                self.inner = msgspec.structs.replace(self.inner, status=status)
            case planned.SyncSkrMetadata() | planned.DeleteSkrKyma():
                pass
            case _:
                raise AssertionError(f"not expected of a Kyma that is introduced: {action}")


FLEETS = st.builds(Fleet.of, SPECS, LABELS, offers(), INSTALLED, TIMINGS)


@LAWS
@given(fleet=FLEETS)
def test_plan_comes_to_an_end(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.turn()
    settled = fleet.turn()
    assert (settled.in_skr, settled.in_kcp) == ((), ())


@LAWS
@given(fleet=FLEETS)
def test_settled_status_does_not_change_by_time_alone(fleet: Fleet) -> None:
    fleet.timing = Timing(builders.NOW)
    for _ in range(3):
        fleet.turn()
    fleet.timing = Timing(builders.NOW + timedelta(hours=1, microseconds=1))
    later = fleet.turn()
    assert (later.in_skr, later.in_kcp) == ((), ())


@LAWS
@given(fleet=FLEETS)
def test_new_version_is_requested_offered_and_allowed(fleet: Fleet) -> None:
    before = dict(fleet.manifests)
    fleet.turn()
    managed = {module.name for module in fleet.inner.spec.modules if module.managed}
    for name, manifest in fleet.manifests.items():
        module = module_of_manifest(manifest)
        if name in before and before[name].spec.version == manifest.spec.version:
            continue
        offered = [each for each in fleet.offer.templates.values() if module_of(each) == module]
        assert module in managed
        assert any(
            version_of(template) == manifest.spec.version
            and fleet.offer.can_be_chosen(template)
            and excluded(fleet.kyma.metadata.labels, template, fleet.offer.releases.get(module)) is None
            for template in offered
        )


@LAWS
@given(fleet=FLEETS)
def test_exactly_the_modules_that_are_not_requested_or_barred_are_removed(fleet: Fleet) -> None:
    before = dict(fleet.manifests)
    decided = fleet.turn()
    removed = {action.manifest for action in decided.in_kcp if isinstance(action, planned.DeleteManifest)}
    managed = {module.name: module.managed for module in fleet.inner.spec.modules}
    barred = {
        name
        for name, release in fleet.offer.releases.items()
        if release.spec.kyma_selector is not None and fleet.kyma.metadata.labels.get("team") != "a"
    }
    assert removed == {
        name
        for name, module in ((name, module_of_manifest(each)) for name, each in before.items())
        if module not in managed or (managed[module] and module in barred)
    }


@LAWS
@given(fleet=FLEETS)
def test_status_lists_each_requested_or_removed_module_once(fleet: Fleet) -> None:
    requested = {module.name for module in fleet.inner.spec.modules}
    there = {module_of_manifest(each) for each in fleet.manifests.values()}
    fleet.turn()
    shown = [module.name for module in fleet.kyma.status.modules]
    assert sorted(shown) == sorted(requested | there)


@LAWS
@given(fleet=FLEETS, waits=st.booleans())
def test_deletion_removes_everything_whatever_there_is(fleet: Fleet, waits: bool) -> None:
    if waits:
        fleet.turn()
    metadata = msgspec.structs.replace(fleet.kyma.metadata, deletion_timestamp=builders.NOW)
    leaving = replace(fleet, kyma=msgspec.structs.replace(fleet.kyma, metadata=metadata))
    leaving.turn()
    assert leaving.manifests == {}
