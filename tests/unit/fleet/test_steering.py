"""`klm pause`, `resume`, `reconcile` and `continue`: which objects change, and how."""

from datetime import UTC, datetime
from typing import Any

import pytest

from kyma_fleet.explanation.marks import PAUSED_BY, PAUSED_REASON, pause_of
from kyma_fleet.steering import Order, Verb, plan
from lifecycle_manager_api import names
from tests import builders

AT = datetime(2026, 11, 22, 12, tzinfo=UTC)
SKIP = names.SKIP_RECONCILIATION
PAUSED: dict[str, Any] = {"labels": {SKIP: "true"}}


def order(verb: Verb) -> Order:
    return Order(verb, "ada@example.com", AT, "incident 42")


def test_pause_sets_the_label_and_says_who_when_and_why() -> None:
    (step,) = plan(order("pause"), [builders.kyma("demo"), builders.kyma("other", **PAUSED)])
    assert step.patch == {
        "metadata": {
            "uid": "uid-of-demo",
            "labels": {SKIP: "true"},
            "annotations": {
                PAUSED_BY: "ada@example.com",
                names.PAUSED_AT: "2026-11-22T12:00:00+00:00",
                PAUSED_REASON: "incident 42",
            },
        }
    }


def test_resume_leaves_the_label_that_keeps_the_former_version_off() -> None:
    kept = {names.SKIPPED_BY: names.FORMER_VERSION}
    unpaused = builders.kyma("unpaused", annotations=kept, **PAUSED)
    paused = builders.kyma("paused", annotations={**kept, names.PAUSED_AT: AT.isoformat()}, **PAUSED)
    (step,) = plan(order("resume"), [unpaused, paused])
    assert (step.item, step.labels) == (paused, {})
    assert [each.item for each in plan(order("pause"), [unpaused, paused])] == [unpaused]


def test_deletions_are_continued_by_a_time_on_the_kyma_alone() -> None:
    (step,) = plan(order("continue"), [builders.kyma("demo"), builders.manifest()])
    assert (step.item.kind, step.annotations) == ("Kyma", {names.CONTINUE_DELETION: "2026-11-22T12:00:00+00:00"})


@pytest.mark.parametrize("at", ["", "yesterday"])
def test_a_pause_by_other_means_has_no_time(at: str) -> None:
    pause = pause_of(builders.kyma(annotations={names.PAUSED_AT: at}, **PAUSED).metadata)
    assert pause is not None
    assert pause.since is None
