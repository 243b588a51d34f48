"""What the demo says first fits into a terminal of 80 columns."""

import pytest

from kyma_demo import announcement as said
from kyma_demo.rollout.running import introduction

COLUMNS = 79


@pytest.mark.parametrize(
    ("rollout", "nodes", "existing"),
    [(True, False, False), (False, True, False), (False, False, True), (False, False, False)],
)
@pytest.mark.parametrize("is_fetched", [True, False])
def test_announcement_fits_into_80_columns(
    rollout: bool, nodes: bool, existing: bool, is_fetched: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(said, "present_binaries", lambda: object() if is_fetched else None)
    text = said.announcement(rollout=rollout, nodes=nodes, existing=existing, clusters=2000)
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
    assert text.startswith("The demo: ")


def test_introduction_of_the_rollout_fits_into_80_columns() -> None:
    text = introduction(2.0, "http://127.0.0.1:65535")
    assert [line for line in text.splitlines() if len(line) > COLUMNS] == []
