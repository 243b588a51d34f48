"""The notes of a release are its section of the changelog."""

import pytest

from tools.release.notes import notes_of

CHANGELOG = "# Changelog\n\n## Unreleased\n\n- x\n\n## 0.2.0 - 2026-12-01\n\n### Added\n\n- y\n\n## 0.1.0\n\n- z\n"


def test_notes_are_those_of_the_version_alone() -> None:
    assert notes_of("0.2.0", CHANGELOG) == "### Added\n\n- y\n"
    assert notes_of("0.1.0", CHANGELOG) == "- z\n"


def test_version_without_a_section_is_not_released() -> None:
    with pytest.raises(ValueError, match=r"no section `## 0\.3\.0`"):
        notes_of("0.3.0", CHANGELOG)
