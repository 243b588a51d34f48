"""The command `klm`."""

import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from typer.testing import CliRunner

from lifecycle_manager import page
from lifecycle_manager.cli import app
from lifecycle_manager.options.clusters import SkrSettings
from lifecycle_manager.options.endpoints import EndpointSettings, PageSettings
from lifecycle_manager.options.model import options_of
from lifecycle_manager.options.modules import ManifestSettings
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.replicas import ReplicaSettings
from lifecycle_manager.settings import GROUPS, Settings, SettingsInvalid, options
from tests.klm import KLM


@pytest.mark.parametrize(("option", "shown"), [("--version", "klm 0."), ("--help", "--install-completion")])
def test_options_of_the_command_itself(option: str, shown: str) -> None:
    result = CliRunner().invoke(app, [option], prog_name="klm")
    assert result.exit_code == 0
    assert shown in result.output


def klm_run(*arguments: str) -> tuple[int, str]:
    code = "import sys; sys.argv[0] = 'klm'; from lifecycle_manager.cli import main; main()"
    command = [sys.executable, "-c", code, "run", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, done.stdout + done.stderr


def test_help_of_run_lists_each_option_once_and_whole_within_80_columns() -> None:
    code, shown = klm_run("--help")
    assert code == 0
    lines = shown.splitlines()
    assert [name for name in options() if sum(line.split()[:1] == [f"--{name}"] for line in lines) != 1] == []
    assert max(map(len, lines)) <= 80


def test_each_invalid_option_is_named_with_what_is_wrong() -> None:
    code, shown = klm_run("--cache-sync-timeout=3x", "--log-level=LOUD", "--max-warm-skrs=0")
    assert code == 2
    assert "--cache-sync-timeout: invalid duration '3x'" in shown
    assert "--log-level: Input should be 'DEBUG'" in shown
    assert "--max-warm-skrs: Input should be greater than or equal to 1" in shown


def test_an_option_that_several_domains_share_is_declared_alike_in_all() -> None:
    """But for the default, where the help says which there are."""
    declared: dict[str, set[str]] = {}
    for each in (each for group in GROUPS.values() for kind in group for each in options_of(kind)):
        default = "" if "; by default " in each.help else each.default
        schema = {**each.schema, "default": default}
        declared.setdefault(each.name, set()).add(f"{each.help} {schema}")
    assert [name for name, ways in declared.items() if len(ways) > 1] == []


def test_flags_precede_the_environment() -> None:
    environment = {"KLM_LOG_LEVEL": "ERROR", "KLM_MAX_WARM_SKRS": "7", "KLM_ADDITIONAL_DNS_NAMES": "a,b"}
    settings = Settings({"log-level": "DEBUG"}, environment=environment)
    assert settings[ProcessSettings].log_level == "DEBUG"
    assert settings[SkrSettings].max_clients == 7
    assert settings[EndpointSettings].event_names.additional == ("a", "b")


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("fd00::1:8443", "[fd00::1]:8443"),  # $(POD_IP):8443
        ("[fd00::1]:8443", "[fd00::1]:8443"),
        ("10.0.0.1:8443", "10.0.0.1:8443"),
        ("replica.example:8443", "replica.example:8443"),
    ],
)
def test_address_of_a_replica_can_stand_in_a_url(given: str, used: str) -> None:
    assert Settings({"replica-address": given})[ReplicaSettings].address == used
    assert Settings({"event-address": given})[EndpointSettings].event_names.address == used


@pytest.mark.parametrize("given", ["fd00::1", "fd00:::1:8443", "a:b:8443"])
def test_address_that_is_none_is_refused(given: str) -> None:
    with pytest.raises(SettingsInvalid, match="replica-address: invalid address"):
        Settings({"replica-address": given})


PATHS = ("debug-socket", "kubeconfig", "maintenance-policy", "webhook-client-ca")


@pytest.mark.parametrize("name", PATHS)
def test_an_empty_path_is_none(name: str) -> None:
    """Not the working directory: templates and variables of the environment leave values empty."""
    assert Settings({name: ""}).shown()[name] == ""


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("manifest-requeue-success-interval", "0"),  # a ZeroDivisionError in each reconcile of a Manifest
        ("watcher-silence", "0s"),  # Watchers refuse their heartbeat, and start nowhere
        ("failure-max-delay", "0"),  # failures are retried without a pause
        ("cache-sync-timeout", "0"),
        ("k8s-client-qps", "inf"),  # an OverflowError
        ("event-address", ":443"),
        ("event-address", "kcp.example:0"),
        ("event-address", "kcp.example/v2:443"),
        ("skr-webhook-memory-limits", "200MB"),  # no API server takes such a Watcher
        ("skr-webhook-cpu-limits", ""),
    ],
)
def test_a_value_that_cannot_work_is_refused_at_the_start(name: str, value: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"--{name}: "):
        Settings({name: value})


def test_spaces_between_several_values_are_no_part_of_them() -> None:
    """A module with a space in its name would not be restricted."""
    settings = Settings({"restricted-default-modules": ["a, b ", " c"], "trusted-proxy-cidrs": "10.0.0.0/8, fd00::/8"})
    assert settings[ManifestSettings].restricted_modules == ("a", "b", "c")
    assert [str(each) for each in settings[EndpointSettings].trusted_proxies] == ["10.0.0.0/8", "fd00::/8"]


def test_page_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page, "ENTRY_POINTS", "nothing.has.this.group")
    served: Any = None
    with pytest.raises(page.PageUnusable, match="install the distribution kyma-fleet-page"):
        page.setup(served, served, served, PageSettings(address=("127.0.0.1", 8090)))


@pytest.mark.parametrize("arguments", [["get", "kymas", "-o", "unknown"], ["--a-long-option-that-nobody-has"]])
def test_usage_error_fits_the_terminal_and_is_one_line_elsewhere(arguments: list[str]) -> None:
    ours, theirs = pty.openpty()
    command = [str(KLM), *arguments]
    environment = {**os.environ, "COLUMNS": "40"}
    assert subprocess.run(command, stderr=theirs, check=False, timeout=60, env=environment).returncode == 2
    os.close(theirs)
    shown = os.read(ours, 64 * 1024).decode()
    os.close(ours)
    assert max(map(len, shown.splitlines())) <= 40
    piped = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment).stderr
    assert piped.splitlines()[-1].startswith("Error: ")
    assert shown.split() == piped.split()
    assert "Value error" not in piped
