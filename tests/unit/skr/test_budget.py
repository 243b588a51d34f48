"""The CPU time of one cluster, and that of all of them together."""

import pytest

from lifecycle_manager.skr.budget import CpuBudget


def test_what_one_cluster_spends_is_missing_for_all() -> None:
    of_all = CpuBudget(share=0.1, burst=0.2)
    one, other = CpuBudget(of_all=of_all), CpuBudget(of_all=of_all)
    one.charge(0.3, 0.0)
    assert one.wait(0.0) == other.wait(0.0) == pytest.approx(1.0)  # 0.1 s too much, at 10 % of a core
    assert other.wait(1.1) == 0.0


def test_cluster_waits_for_its_own_budget_although_others_spend_nothing() -> None:
    one = CpuBudget(share=0.05, burst=0.5, of_all=CpuBudget(share=0.1, burst=10.0))
    one.charge(1.0, 0.0)
    assert one.wait(0.0) == pytest.approx(10.0)
    assert one.wait(10.1) == 0.0
