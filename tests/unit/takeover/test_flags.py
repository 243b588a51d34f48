"""The arguments of the former version's Deployment start this one."""

from datetime import timedelta
from pathlib import Path

import pytest

from kyma_takeover.flags import WITHOUT_EFFECT, adapted
from lifecycle_manager.command_line import settings_in
from lifecycle_manager.kyma import KymaSettings
from lifecycle_manager.options.endpoints import EndpointSettings
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.options.watcher import CertificateSettings
from lifecycle_manager.settings import Settings, options

ARGUMENTS = (Path(__file__).parent / "arguments.txt").read_text().split()
"""All options of the former version, with values as in production."""


def settings_of(*arguments: str) -> Settings:
    return settings_in(list(arguments))


def test_all_options_of_the_former_version_are_accepted() -> None:
    assert len(ARGUMENTS) == 71

    settings = settings_of(*ARGUMENTS)

    assert settings[KymaSettings].interval_seconds == 300
    assert settings[KymaSettings].rollout.max_delay == timedelta(0)
    assert settings[EndpointSettings].event_names.additional == ("localhost", "listener.kyma.example.com")
    assert settings[CertificateSettings].former_namespace == "istio-system"
    assert settings[EndpointSettings].enable_webhooks
    assert settings[ProcessSettings].log_level == "DEBUG"


def test_no_option_of_this_version_is_without_effect() -> None:
    assert not options().keys() & WITHOUT_EFFECT.keys()


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        (["--listener-port-overwrite", "9443", "--leader-elect=false"], ["--no-leader-elect"]),
        (["--pprof", "--leader-elect"], ["--leader-elect"]),
        (["-leader-elect=true"], ["--leader-elect"]),
        (["--enable-purge-finalizer=true"], ["--enable-purge-finalizer"]),  # of versions before 1.21
        (["--log-level", "0"], ["--log-level=INFO"]),
        (["--log-level=-4"], ["--log-level=DEBUG"]),
        (["--log-level=WARNING"], ["--log-level=WARNING"]),
        (
            ["--cert-management", "cert.gardener.cloud/v1alpha1"],
            ["--cert-management", "cert.gardener.cloud/v1alpha1"],
        ),
        (["--kubeconfig", "kcp.yaml"], ["--kubeconfig", "kcp.yaml"]),
    ],
)
def test_options_are_taken_as_go_takes_them(given: list[str], kept: list[str]) -> None:
    assert adapted(given)[0] == kept


def test_unknown_option_is_still_refused() -> None:
    with pytest.raises(Exception, match="No such option: --no-such-option"):
        settings_of("--no-such-option=1")
