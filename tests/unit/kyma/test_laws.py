"""The laws of a Kyma's plan, for generated fleets: it settles, and installs nothing that it must not install."""

from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import ClusterUnreachable, Forbidden, KubeError, Step
from lifecycle_manager.kyma.resolution import Installed
from lifecycle_manager.kyma.rules import visible_metadata
from lifecycle_manager.kyma.snapshot import KymaSnapshot, SkrView
from lifecycle_manager.module_catalog.audience import excluded
from lifecycle_manager.module_catalog.identity import module_of, version_of
from lifecycle_manager.module_catalog.manifests import module_of_manifest
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager.skr.access import AccessSecretMissing
from lifecycle_manager_api import Kyma, KymaSpec, Manifest, ModuleReleaseMeta, ModuleTemplate, names
from tests import builders
from tests.unit.kyma import steps
from tests.unit.kyma.generated_fleets import INSTALLED, LABELS, MODULES, SPECS, TIMINGS, offers
from tests.unit.kyma.planning import Planned, planned, snapshot

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
        shown, annotations = visible_metadata(kyma)
        inner = builders.kyma("default", labels=shown, annotations=annotations, namespace="kyma-system")
        manifests = [builders.manifest(module, each.version, channel=each.channel) for module, each in there.items()]
        return cls(
            kyma,
            msgspec.structs.replace(inner, spec=requested),
            Offer.of(*catalog),
            timing,
            {each.metadata.name: each for each in manifests},
        )

    @property
    def snapshot(self) -> KymaSnapshot:
        manifests = tuple(self.manifests.values())
        return snapshot(self.kyma, SkrView(self.inner), self.offer, timing=self.timing, manifests=manifests)

    def turn(self) -> Planned:
        """Plan, and have what was planned come true."""
        decided = planned(self.snapshot)
        for step in (*decided.in_skr, *decided.changes):
            self._carry_out(step)
        if decided.end.status is not None:
            self.kyma = msgspec.structs.replace(self.kyma, status=decided.end.status)
        return decided

    def _carry_out(self, action: Any) -> None:
        match action:
            case steps.ApplyManifest(manifest):
                self.manifests[manifest.metadata.name] = manifest
            case steps.MarkUnmanaged(name, is_unmanaged):
                held = self.manifests[name]
                marks = {key: each for key, each in held.metadata.annotations.items() if key != names.IS_UNMANAGED}
                marks |= {names.IS_UNMANAGED: "true"} if is_unmanaged else {}
                metadata = msgspec.structs.replace(held.metadata, annotations=marks)
                self.manifests[name] = msgspec.structs.replace(held, metadata=metadata)
            case steps.DeleteManifest(name):
                del self.manifests[name]
            case steps.WriteSkrStatus(status):
                self.inner = msgspec.structs.replace(self.inner, status=status)
            case steps.SyncMetadata() | steps.DeleteKyma():
                pass
            case _:
                raise AssertionError(f"not expected of a Kyma that is introduced: {action}")


FLEETS = st.builds(Fleet.of, SPECS, LABELS, offers(), INSTALLED, TIMINGS)


@given(fleet=FLEETS)
def test_plan_comes_to_an_end(fleet: Fleet) -> None:
    for _ in range(3):
        fleet.turn()
    settled = fleet.turn()
    assert settled.is_quiet


REFUSED = Forbidden(403, "Forbidden", "no")
ERRORS = st.sampled_from([REFUSED, ClusterUnreachable("no answer"), AccessSecretMissing("demo")])
SKR_STEPS = steps.SkrStep.__subclasses__()
FAILURES = st.dictionaries(st.sampled_from(SKR_STEPS), ERRORS, max_size=3)


@given(fleet=FLEETS, in_skr=FAILURES, in_kcp=st.booleans(), is_there=st.booleans(), is_deleted=st.booleans())
def test_reconcile_ends_whatever_fails_and_an_skr_that_refused_gets_no_more_steps(
    fleet: Fleet, in_skr: dict[type[Step], Exception], in_kcp: bool, is_there: bool, is_deleted: bool
) -> None:
    deleted_at = builders.NOW if is_deleted else None
    metadata = msgspec.structs.replace(fleet.kyma.metadata, deletion_timestamp=deleted_at)
    kyma = msgspec.structs.replace(fleet.kyma, metadata=metadata)
    view = SkrView(fleet.inner if is_there else None)
    refused = in_skr | ({steps.ChangeModules: REFUSED} if in_kcp else {})
    decided = planned(replace(fleet.snapshot, kyma=kyma, skr=view), refused=refused)
    failed = [refused[type(each)] for each in decided.steps if type(each) in refused]
    in_order = [type(each) in refused for each in decided.in_skr]
    assert not any(in_order[:-1])
    assert (decided.end.error is not None) is any(isinstance(each, KubeError) for each in failed)
    if steps.RemoveKymaFinalizer() in decided.steps:
        assert all(isinstance(each, AccessSecretMissing) for each in failed)


@given(fleet=FLEETS)
def test_settled_status_does_not_change_by_time_alone(fleet: Fleet) -> None:
    fleet.timing = Timing(builders.NOW)
    for _ in range(3):
        fleet.turn()
    fleet.timing = Timing(builders.NOW + timedelta(hours=1, microseconds=1))
    later = fleet.turn()
    assert later.is_quiet


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


@given(fleet=FLEETS)
def test_exactly_the_modules_that_are_not_requested_or_barred_are_removed(fleet: Fleet) -> None:
    before = dict(fleet.manifests)
    decided = fleet.turn()
    removed = {action.manifest for action in decided.changes if isinstance(action, steps.DeleteManifest)}
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


@given(fleet=FLEETS)
def test_status_lists_each_requested_or_removed_module_once(fleet: Fleet) -> None:
    requested = {module.name for module in fleet.inner.spec.modules}
    there = {module_of_manifest(each) for each in fleet.manifests.values()}
    fleet.turn()
    shown = [module.name for module in fleet.kyma.status.modules]
    assert sorted(shown) == sorted(requested | there)


@given(fleet=FLEETS, configured=st.sets(st.sampled_from((*MODULES, "unknown"))))
def test_module_with_module_configs_is_listed_until_they_are_gone(fleet: Fleet, configured: set[str]) -> None:
    """What the status lists keeps its ModuleConfigs and SyncResources in force."""
    requested = {module.name for module in fleet.inner.spec.modules}
    fleet.turn()
    there = {module_of_manifest(each) for each in fleet.manifests.values()}
    configs = tuple(builders.module_config(f"demo-{each}", module=each) for each in sorted(configured))
    status = planned(replace(fleet.snapshot, module_configs=configs)).end.status or fleet.kyma.status
    listed = [module.name for module in status.modules]
    assert sorted(listed) == sorted(requested | there | configured)
    for module in status.modules:
        if module.name in configured - requested - there:
            assert (module.state, module.manifest) == ("Deleting", None)
            assert module.message.endswith("delete its Module CRs first: a Module CR (ModuleCRsInUse)")
    fleet.kyma = msgspec.structs.replace(fleet.kyma, status=status)
    fleet.turn()
    assert sorted(module.name for module in fleet.kyma.status.modules) == sorted(requested | there)


@given(fleet=FLEETS, waits=st.booleans())
def test_deletion_removes_everything_whatever_there_is(fleet: Fleet, waits: bool) -> None:
    if waits:
        fleet.turn()
    metadata = msgspec.structs.replace(fleet.kyma.metadata, deletion_timestamp=builders.NOW)
    leaving = replace(fleet, kyma=msgspec.structs.replace(fleet.kyma, metadata=metadata))
    leaving.turn()
    assert leaving.manifests == {}
