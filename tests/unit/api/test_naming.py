"""Names that are derived from other names."""

from hypothesis import given
from hypothesis import strategies as st

from lifecycle_manager_api import Version, joined_name, split_template_name, template_name
from lifecycle_manager_api.naming import MAX_NAME_LENGTH

NAMES = st.from_regex(r"[a-z]([a-z0-9-]{0,200}[a-z0-9])?", fullmatch=True)


def test_template_is_named_after_module_and_version() -> None:
    assert template_name("cloud-resources", "1.2.0-rc") == "cloud-resources-1.2.0-rc"
    assert split_template_name("cloud-resources-1.2.0-rc") == ("cloud-resources", Version.parse("1.2.0-rc"))


def test_template_name_of_another_form_is_not_split() -> None:
    for name in ("moduletemplate-telemetry-fast", "telemetry", "telemetry-1.2", "1.2.3", "x-1.2.3", ""):
        assert split_template_name(name) is None


@given(NAMES, NAMES)
def test_joined_name_is_a_valid_name_of_limited_length(one: str, two: str) -> None:
    name = joined_name(one, two)

    assert len(name) <= MAX_NAME_LENGTH
    assert name[-1].isalnum()
    assert name == f"{one}-{two}" or len(f"{one}-{two}") > MAX_NAME_LENGTH


def test_long_names_remain_distinct() -> None:
    assert joined_name("a" * 250, "telemetry") != joined_name("a" * 250, "telemetric")
    assert joined_name("a", "b", distinct_by="x") != joined_name("a", "b", distinct_by="y") != joined_name("a", "b")
