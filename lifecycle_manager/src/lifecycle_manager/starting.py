"""The start of `klm run`, from the options that were given to the exit code."""

import os
from collections.abc import Iterable, Mapping

import structlog
import typer
import uvloop

from kube_runtime import AddressUnusable, KubeconfigInvalid
from kyma_certs import FipsUnavailable, fips_mode
from kyma_diagnostics import TracingOptions, TracingUnavailable, tracing
from kyma_diagnostics.debug_server import DebugSocketUnusable
from kyma_diagnostics.logs import configure_logs
from lifecycle_manager.app import run
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.page import PageUnusable
from lifecycle_manager.process.prerequisites import NotInstalled
from lifecycle_manager.replicas import ReplicaSettings
from lifecycle_manager.settings import Settings, SettingsInvalid
from lifecycle_manager_api import names

FAILURES = (
    AddressUnusable,
    DebugSocketUnusable,
    FipsUnavailable,
    KubeconfigInvalid,
    NotInstalled,
    PageUnusable,
    SettingsInvalid,
    TracingUnavailable,
)
"""What an operator has to change before it can run: said in one line, without a traceback."""


def start(given: Mapping[str, object], warnings: Iterable[str]) -> int:
    """Run the Lifecycle Manager until it is stopped, and return its exit code."""
    try:
        settings = Settings(given, environment=os.environ)
        process = settings[ProcessSettings]
        fips_mode(only=process.fips_only)
        configure_logs(process.log_level, process.log_format)
        for warning in warnings:
            structlog.get_logger("klm").warning(warning)
        replica, ratio = settings[ReplicaSettings].given_name, process.trace_sampling_ratio
        with tracing(TracingOptions(names.LIFECYCLE_MANAGER, process.otlp_endpoint, ratio, instance=replica)) as tracer:
            uvloop.run(run(settings, tracer))
    except FAILURES as error:
        typer.secho(str(error), err=True, fg="red")
        return 2
    return 0
