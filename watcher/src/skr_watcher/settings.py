"""The settings of the Watcher, from environment variables."""

import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kyma_diagnostics.tracing import endpoint_of

MAX_SECONDS = 3600.0
OURS, UPSTREAM = "klm", "upstream"
MAX_COUNT = 1_000_000


class SettingInvalid(ValueError):
    """An environment variable has an invalid value."""


@dataclass(frozen=True, slots=True)
class SkrWatcherSettings:
    """Where the Watcher listens, its certificate files, and where the control plane is."""

    webhook_host: str = ""
    """Address of the webhook; every one, IPv4 and IPv6, if empty."""
    webhook_port: int = 8443
    """Port of the webhook."""
    metrics_host: str = ""
    """Address of metrics and probes; every one if empty."""
    metrics_port: int = 2112
    """Port of metrics and probes."""
    tls_cert: Path = Path("/tls/tls.crt")
    """File with the certificate, for the webhook and for events."""
    tls_key: Path = Path("/tls/tls.key")
    """File with its key."""
    ca_cert: Path = Path("/tls/ca.crt")
    """File with the CAs of the control plane."""
    api_server_ca: Path | None = None
    """File with a CA: only clients with a certificate of it may send admission requests."""
    kcp_address: str = ""
    """The event address of the control plane, as host:port. Required."""
    kcp_contract: str = "v2"
    """Version of the contract in the path of events."""
    kcp_listener: str = OURS
    """Kind of the event listener there: klm, which verifies signatures, or upstream, which does not."""
    resync_manager: str = "lifecycle-manager"
    """Manager to which heartbeats and RESYNC events are sent."""
    heartbeat_seconds: float = 46.0
    """Seconds without an event after which a heartbeat is sent."""
    max_pending: int = 3_000
    """Maximum of changes to be delivered; beyond it they become one RESYNC."""
    max_connections: int = 40
    """Maximum of connections to the webhook."""
    drain_seconds: float = 10.0
    """Seconds at the end in which events are still delivered."""
    log_level: str = "INFO"
    """The least level that is logged."""
    otlp_endpoint: str = ""
    """URL of an OpenTelemetry collector for traces; none if empty."""
    trace_sampling_ratio: float = 0.0
    """Share of the changes that are traced, from 0 to 1."""
    debug_socket: Path | None = None
    """Unix socket that answers `klm debug`."""
    fips_only: bool = False
    """Do not start without OpenSSL's FIPS provider."""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "SkrWatcherSettings":
        """Read the settings. Raises SettingInvalid, naming the variable."""
        defaults = cls()
        return cls(
            webhook_host=environment.get("WEBHOOK_HOST", defaults.webhook_host),
            webhook_port=_port(environment, "WEBHOOK_PORT", defaults.webhook_port),
            metrics_host=environment.get("METRICS_HOST", defaults.metrics_host),
            metrics_port=_port(environment, "METRICS_PORT", defaults.metrics_port),
            tls_cert=Path(environment.get("TLS_CERT", defaults.tls_cert)),
            tls_key=Path(environment.get("TLS_KEY", defaults.tls_key)),
            ca_cert=Path(environment.get("CA_CERT", defaults.ca_cert)),
            api_server_ca=Path(file) if (file := environment.get("API_SERVER_CA")) else None,
            kcp_address=_address(environment, "KCP_ADDR"),
            kcp_contract=environment.get("KCP_CONTRACT", defaults.kcp_contract),
            kcp_listener=_one_of(environment, "KCP_LISTENER", (OURS, UPSTREAM)),
            resync_manager=environment.get("RESYNC_MANAGER", defaults.resync_manager),
            heartbeat_seconds=_seconds(environment, "HEARTBEAT_SECONDS", defaults.heartbeat_seconds),
            max_pending=_count(environment, "MAX_PENDING", defaults.max_pending),
            max_connections=_count(environment, "MAX_CONNECTIONS", defaults.max_connections),
            drain_seconds=_seconds(environment, "DRAIN_SECONDS", defaults.drain_seconds),
            log_level=_level(environment, "LOG_LEVEL", defaults.log_level),
            otlp_endpoint=_endpoint(environment, "OTLP_ENDPOINT"),
            trace_sampling_ratio=_ratio(environment, "TRACE_SAMPLING_RATIO"),
            debug_socket=Path(file) if (file := environment.get("DEBUG_SOCKET")) else None,
            fips_only=_one_of(environment, "FIPS_ONLY", ("false", "true")) == "true",
        )


def _port(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdecimal() or int(text) > 65535:
        raise SettingInvalid(f"{name}: invalid port {text!r}, expected a number up to 65535")
    return int(text)


def _count(environment: Mapping[str, str], name: str, default: int) -> int:
    text = environment.get(name, str(default))
    if not text.isdecimal() or not 0 < int(text) <= MAX_COUNT:
        raise SettingInvalid(f"{name}: invalid number {text!r}, expected 1 to {MAX_COUNT}")
    return int(text)


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, str(default))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= MAX_SECONDS:
        raise SettingInvalid(f"{name}: invalid seconds {text!r}, expected more than 0 and at most {MAX_SECONDS:g}")
    return seconds


def _ratio(environment: Mapping[str, str], name: str) -> float:
    text = environment.get(name, "0")
    try:
        ratio = float(text)
    except ValueError:
        ratio = -1.0
    if not 0 <= ratio <= 1:
        raise SettingInvalid(f"{name}: invalid share {text!r}, expected 0 to 1")
    return ratio


def _endpoint(environment: Mapping[str, str], name: str) -> str:
    try:
        return endpoint_of(environment.get(name, ""))
    except ValueError as error:
        raise SettingInvalid(f"{name}: {error}") from None


def _one_of(environment: Mapping[str, str], name: str, choices: tuple[str, ...]) -> str:
    text = environment.get(name, choices[0])
    if text not in choices:
        raise SettingInvalid(f"{name}: unknown value {text!r}, expected one of {', '.join(choices)}")
    return text


def _level(environment: Mapping[str, str], name: str, default: str) -> str:
    text = environment.get(name, default)
    if text.upper() not in logging.getLevelNamesMapping():
        raise SettingInvalid(f"{name}: unknown level {text!r}, expected one such as DEBUG, INFO or WARNING")
    return text.upper()


def _address(environment: Mapping[str, str], name: str) -> str:
    text = environment.get(name, "")
    if not text:
        raise SettingInvalid(f"{name} is not set: expected the event address of the control plane as host:port")
    host, _, port = text.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise SettingInvalid(f"{name}: invalid address {text!r}, expected host:port")
    return text
