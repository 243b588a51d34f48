"""`klm preview`: what a release means for each Kyma, by the rules of Lifecycle Manager."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from kyma_fleet.preview import (
    MAX_REASONS,
    KymaPreview,
    ReleasePreview,
    Sums,
    outcome_for,
    released,
    sums_of,
)
from kyma_fleet.problems import Problem
from kyma_fleet.release_waves import Release, require_not_taken_back
from kyma_fleet.screen import Screen
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager.module_catalog.offer import Offer
from lifecycle_manager.rollout.maintenance import MaintenancePolicy, Window
from lifecycle_manager.rollout.schedule import Timing
from lifecycle_manager_api import Kyma, ModuleReleaseMeta, ModuleTemplate, as_document, names
from tests import builders
from tests.unit.fleet_page.rollouts import rollout

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)  # a Sunday
RELEASE = Release("keda", "2.0.0", "regular")


def dated(release: ModuleReleaseMeta) -> DatedReleaseMeta:
    return msgspec.convert(as_document(release), DatedReleaseMeta)


def catalog(*templates: ModuleTemplate, release: ModuleReleaseMeta | None = None) -> Any:
    known = templates or (builders.template("keda", "1.0.0"), builders.template("keda", "2.0.0"))
    return Offer.of(known, [dated(release or builders.release("keda", regular="1.0.0", fast="2.0.0"))])


def having(version: str = "1.0.0", channel: str = "regular", *, state: str = "Ready", **metadata: Any) -> Kyma:
    module = builders.module_status("keda", version, state, channel=channel)
    return builders.kyma("demo", status={"state": "Ready", "modules": [module]}, **metadata)


def outcome(item: Kyma, *, offer: Any = None, release: Release = RELEASE, **timing: Any) -> KymaPreview | None:
    changed, _ = released(offer or catalog(), release)
    return outcome_for(item, release, changed, Timing(NOW, {"keda": NOW}, **timing))


def test_a_kyma_gets_it_at_its_turn_of_the_rollout() -> None:
    at_once, later = outcome(having()), outcome(having(), max_delay=timedelta(minutes=5))
    assert at_once == KymaPreview("demo", "1.0.0", at=NOW)
    assert later is not None
    assert later.at is not None
    assert NOW < later.at <= NOW + timedelta(minutes=5)


def test_a_version_with_downtime_waits_for_a_window_after_its_turn() -> None:
    offer = catalog(builders.template("keda", "2.0.0", requires_downtime=True))
    window = Window(("Mon",), "00:00:00+00:00", "06:00:00+00:00")
    waiting = outcome(having(), offer=offer, max_delay=timedelta(minutes=5), policy=MaintenancePolicy(window))
    assert waiting is not None
    assert waiting.at == datetime(2026, 11, 23, tzinfo=UTC)
    never = outcome(having(), offer=offer, policy=MaintenancePolicy(Window((), "00:00:00+00:00", "06:00:00+00:00")))
    assert never is not None
    assert (never.gets_it, never.reason) == (False, "WaitsForMaintenance")


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        pytest.param(having("3.0.0"), "DowngradeNotAllowed", id="downgrade"),
        pytest.param(having(state="Unmanaged"), "ModuleUnmanaged", id="unmanaged"),
        pytest.param(having(labels={names.SKIP_RECONCILIATION: "true"}), "Paused", id="paused"),
        pytest.param(having("2.0.0"), "", id="has it"),
    ],
)
def test_a_kyma_is_held_back_or_has_it(item: Kyma, reason: str) -> None:
    found = outcome(item)
    assert found is not None
    assert (found.gets_it, found.reason) == (False, reason)


def test_other_channels_are_not_affected_unless_all_are_meant() -> None:
    assert outcome(having(channel="fast")) is None
    assert outcome(builders.kyma("without")) is None
    assert outcome(having(channel="fast"), release=Release("keda", "2.0.0")) is not None


def test_a_version_that_was_taken_back_comes_to_no_cluster() -> None:
    offered = [dated(builders.release("keda", regular="2.0.0", fast="2.0.0"))]
    undone = rollout("keda", phase="Superseded", spec={"version": "2.0.0", "formerVersion": "1.0.0"})
    spec = {"undoes": "keda-regular-2", "version": "1.0.0", "formerVersion": "2.0.0"}
    for phase in ("Progressing", "Completed"):
        rollouts = [undone, rollout("keda", revision=3, phase=phase, spec=spec)]
        for channel in ("regular", ""):
            with pytest.raises(Problem, match=r"no cluster gets 2[.]0[.]0 before the channel gives another"):
                require_not_taken_back(Release("keda", "2.0.0", channel), offered, rollouts)
        require_not_taken_back(Release("keda", "2.0.0", "fast"), offered, rollouts)
        require_not_taken_back(Release("keda", "3.0.0", "regular"), offered, rollouts)


def test_a_mandatory_module_has_no_rollout() -> None:
    offer = catalog(builders.template("keda", "2.0.0"), release=builders.release("keda", mandatory="1.0.0"))
    with pytest.raises(Problem, match="is mandatory"):
        released(offer, RELEASE)


def sums(count: int = 200) -> Sums:
    outcomes: list[KymaPreview | None] = [None, KymaPreview("has", "2.0.0")]
    for number in range(count):
        outcomes.append(KymaPreview(f"k{number}", "1.0.0", at=NOW + timedelta(seconds=number)))
        outcomes.append(KymaPreview(f"h{number}", "3.0.0", reason=f"R{number}", message="x | \x1b[1m<b>"))
    return sums_of(RELEASE, outcomes, sample=2)


def test_sums_are_bounded_and_complete() -> None:
    found = sums()
    assert (found.get_it, found.have_it, found.others, found.sample) == (200, 1, 1, ("k0", "k1"))
    assert len(found.held_back) <= MAX_REASONS + 1
    assert sum(each.count for each in found.held_back.values()) == 200


def test_report_for_a_terminal_and_as_markdown() -> None:
    found, stream = ReleasePreview(release=RELEASE, sums=sums(1), lacks_windows=True), io.StringIO()
    found.print_table(Screen(stream=stream))
    assert stream.getvalue().splitlines() == [
        "keda 2.0.0 in channel regular",
        "  1 Kyma would get it, instead of 1.0.0 (1)",
        "  if it is released now: from 2026-11-22 12:00:00 to 2026-11-22 12:00:00 UTC",
        "  1 Kyma already in this version",
        "  1 Kyma held back",
        "  1 Kyma not affected",
        "  it requires downtime: --maintenance-policy FILE, as of klm run, takes the windows into account",
        "",
        "HELD BACK BY  KYMAS  SUCH AS  MESSAGE",
        "R0            1      h0       x | <b>",
    ]
    stream = io.StringIO()
    found.print_table(Screen(stream=stream, form="markdown"))
    assert "| R0 | 1 | h0 | x \\| \\<b\\> |" in stream.getvalue()
    assert "- 1 Kyma would get it" in stream.getvalue()
