"""Text of clusters on a terminal: one line, without control, of bounded length."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime.ages import duration
from kyma_fleet.text import cut, padded, plain


@pytest.mark.parametrize(
    ("hostile", "shown"),
    [
        pytest.param("\x1b[2J\x1b[31mgone", "gone", id="escape sequences"),
        pytest.param("\x1b]0;title\x07text", "text", id="title of the window"),
        pytest.param("a\r\nb\tc", "a b c", id="lines"),
        pytest.param("ab\u202egnp.exe", "abgnp.exe", id="direction"),
        pytest.param("\x9b31mred", "31mred", id="C1 control"),
        pytest.param("[red]not markup[/]", "[red]not markup[/]", id="markup is text"),
        pytest.param("Grüße 东京", "Grüße 东京", id="other scripts stay"),
    ],
)
def test_control_characters_are_removed(hostile: str, shown: str) -> None:
    assert plain(hostile) == shown


@given(st.text())
def test_what_is_printed_is_one_line_of_printable_characters(text: str) -> None:
    line = plain(text)
    assert "\x1b" not in line
    assert "\n" not in line
    assert not any(ord(each) < 32 or 127 <= ord(each) < 160 for each in line)
    assert plain(line) == line


def test_a_long_text_is_cut() -> None:
    assert plain("x" * 100, 10) == "xxxxxxxxx…"
    assert cut("东京东京", 5) == "东京…"
    assert padded("东", 4) == "东  "


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "0s"),
        (119, "119s"),
        (180, "3m"),
        (3600, "1h"),
        (7200, "2h"),
        (9000, "2h30m"),
        (90000, "25h"),
        (864000, "10d"),
    ],
)
def test_a_length_of_time_is_short(seconds: int, shown: str) -> None:
    assert duration(timedelta(seconds=seconds)) == shown
