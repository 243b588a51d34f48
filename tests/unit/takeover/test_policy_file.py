"""The maintenance policy is found where the former version expects it."""

from pathlib import Path

from lifecycle_manager.rollout.maintenance import find_policy


def test_policy_at_the_conventional_place_is_used_unless_another_is_named(tmp_path: Path) -> None:
    conventional, named = tmp_path / "policy.json", tmp_path / "other.json"
    assert find_policy(None, conventional) is None
    conventional.write_text("{}")
    assert find_policy(None, conventional) == conventional
    assert find_policy(named, conventional) == named
