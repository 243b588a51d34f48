"""The variables of the environment: an invalid one is named before the Watcher starts."""

import pytest

from skr_watcher.settings import SettingInvalid, SkrWatcherSettings


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("KCP_ADDR", ""),
        ("KCP_ADDR", "events.example.com"),
        ("KCP_ADDR", "https://events.example.com:443"),
        ("KCP_ADDR", ":443"),
        ("KCP_ADDR", "events.example.com:0"),
        ("KCP_ADDR", "events.example.com:70000"),
        ("LOG_LEVEL", "loud"),
        ("METRICS_PORT", "http"),
        ("KCP_LISTENER", "theirs"),
    ],
)
def test_invalid_variable_is_named(name: str, value: str) -> None:
    with pytest.raises(SettingInvalid, match=f"^{name}"):
        SkrWatcherSettings.from_environment({"KCP_ADDR": "events.example.com:443", name: value})


@pytest.mark.parametrize("address", ["events.example.com:443", "[fd00::1]:443", "10.0.0.1:8082"])
def test_address_of_the_control_plane_is_read(address: str) -> None:
    settings = SkrWatcherSettings.from_environment({"KCP_ADDR": address, "LOG_LEVEL": "debug"})
    assert (settings.kcp_address, settings.log_level) == (address, "DEBUG")
