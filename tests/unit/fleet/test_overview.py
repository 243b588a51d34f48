"""`klm status`: what is counted, what is wrong, and that a large fleet keeps little."""

import io
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from kyma_fleet.overview.report import status_of
from kyma_fleet.overview.tally import NOT_IN_CATALOG, WORST, Replica, Tally, rollouts_of
from kyma_fleet.screen import Screen
from lifecycle_manager.contract.resources import DatedReleaseMeta
from lifecycle_manager_api import Kyma, State, names
from tests import builders
from tests.builders import condition, module_status
from tests.unit.fleet_page.rollouts import rollout

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
TEMPLATE = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": "x"}}


def counted(name: str, state: str = "Ready", *conditions: dict[str, Any], modules: Any = (), **metadata: Any) -> Kyma:
    status = {"state": state, "conditions": list(conditions), "modules": list(modules)}
    return builders.kyma(name, status=status, **metadata)


def replica(name: str = "lm-0", seconds: int = 3) -> Replica:
    return Replica(name, NOW - timedelta(seconds=seconds), timedelta(seconds=10))


def release(version: str) -> DatedReleaseMeta:
    document = {
        "metadata": {"name": "keda", "managedFields": [{"time": "2026-11-22T11:56:00Z"}]},
        "spec": {"moduleName": "keda", "channels": [{"channel": "regular", "version": version}]},
    }
    return msgspec.convert(document, DatedReleaseMeta, strict=False)


def shown(tally: Tally, width: int | None = None) -> str:
    stream = io.StringIO()
    status_of(tally, NOW).print_table(Screen(width=width, stream=stream))
    return stream.getvalue()


def test_a_fleet_in_order_is_not_wrong() -> None:
    tally = Tally((replica(),), {})
    tally.add(counted("a", modules=[module_status()]))
    assert tally.wrong(NOW) == []
    assert shown(tally).endswith("\nnothing is wrong\n")


def test_worst_clusters_come_first_with_their_cause() -> None:
    tally = Tally((replica(),), {})
    tally.add(
        counted("late", "Error", condition("Ready", "ClusterUnreachable", "timed out", at="2026-11-22T11:30:00Z"))
    )
    tally.add(counted("warned", "Warning", condition("Ready", "ModuleWarning", "slow", at="2026-11-22T09:00:00Z")))
    tally.add(
        counted(
            "early",
            "Error",
            condition("Ready", "AccessSecretMissing", "no\x1b[1m Secret", at="2026-11-22T10:00:00Z"),
        )
    )
    assert [each.kyma for each in tally.broken.worst()] == ["early", "late", "warned"]
    text = shown(tally)
    assert "early           Error    2h     AccessSecretMissing: no Secret" in text
    assert "wrong: 2 Kymas in state Error; 1 Kyma in state Warning" in text
    assert "next:  klm explain early" in text
    assert "causes: ClusterUnreachable 1, ModuleWarning 1, AccessSecretMissing 1" in text


def test_rollout_counts_who_has_the_version_and_who_waits_for_a_window() -> None:
    tally = Tally((replica(),), rollouts_of([release("2.0.0")]))
    tally.add(counted("new", modules=[module_status(version="2.0.0")]))
    tally.add(counted("old", modules=[module_status(version="1.0.0")]))
    tally.add(counted("window", modules=[module_status(version="1.0.0", maintenance=True)]))
    tally.add(counted("unmanaged", modules=[module_status(version="1.0.0", state="Unmanaged")]))
    text = shown(tally)
    assert "keda     regular  2.0.0  1/3      1                4m" in text
    assert "keda    1.0.0    2      1" in text
    assert tally.wrong(NOW) == []


def test_channel_whose_version_was_taken_back_counts_what_the_undo_returns_to() -> None:
    spec = {"undoes": "keda-regular-2", "version": "1.0.0", "formerVersion": "2.0.0"}
    former = rollout("keda", phase="Completed", spec={"version": "2.0.0", "formerVersion": "1.0.0"})
    back = rollout("keda", revision=3, phase="Completed", spec=spec)
    tally = Tally((replica(),), rollouts_of([release("2.0.0")], [former, back]))
    tally.add(counted("back", modules=[module_status(version="1.0.0")]))
    text = shown(tally)
    assert "keda     regular  1.0.0  1/1      .                -" in text
    assert "keda in channel regular: keda-regular-3 took 2.0.0 of keda-regular-2 back: 1.0.0 is in force" in text


def test_silent_watchers_missing_certificates_and_replicas_are_wrong() -> None:
    tally = Tally((replica("lm-0"), replica("lm-1", 60)), {})
    tally.add(counted("silent", "Ready", condition("SKRWebhook", "WatcherSilent", "no event for 60 s")))
    tally.add(counted("bare", "Ready", condition("SKRWebhook", "CertificatePending", "waits")))
    late = "the Watcher's certificate ends at 2026-12-01 00:00 UTC, and was not renewed in time"
    tally.add(counted("late", "Ready", condition("SKRWebhook", "CertificateRenewalOverdue", late, "True")))
    assert tally.wrong(NOW) == [
        "1 Kyma without events",
        "1 Kyma without a certificate for the Watcher",
        "1 Kyma with a certificate that was not renewed",
        "1 replica of Lifecycle Manager did not renew the Lease",
    ]
    assert f"CertificateRenewalOverdue: {late}" in shown(tally)
    assert sum(tally.shards.values()) == 3
    alone = Tally()
    alone.add(counted("a"))
    assert alone.wrong(NOW) == ["no replica of Lifecycle Manager has a Lease"]


def test_names_that_users_made_up_cost_nothing() -> None:
    tally = Tally((replica(),), {})
    for number in range(200):
        made_up = module_status(f"made-up-{number}", state="Error", template=None)
        tally.add(counted(f"k{number}", "Error", condition("Ready", "ModuleError"), modules=[made_up]))
    assert dict(tally.modules) == {(NOT_IN_CATALOG, "-", State.ERROR): 200}
    assert len(tally.broken._kept) <= 4 * WORST  # noqa: SLF001 - what is kept is what is claimed
    assert f"and {200 - WORST} more" in shown(tally)


def test_paused_and_unreachable_clusters_are_counted_and_lines_fit_the_screen() -> None:
    tally = Tally((replica(),), {})
    paused = {names.SKIP_RECONCILIATION: "true"}
    tally.add(counted("p", "Error", condition("SKRReachable", "ClusterUnreachable", "x" * 300), labels=paused))
    text = shown(tally, width=80)
    assert text.startswith("1 Kyma · 1 Error · 1 paused · 1 unreachable\n")
    assert all(len(line) <= 80 for line in text.splitlines())
