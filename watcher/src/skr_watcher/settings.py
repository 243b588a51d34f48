"""The settings of the Watcher, from environment variables."""

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from kyma_diagnostics.tracing import endpoint_of

Listener = Literal["klm", "upstream"]
OURS: Listener = "klm"
UPSTREAM: Listener = "upstream"


class SettingInvalid(ValueError):
    """Environment variables have invalid values."""


def _level(text: str) -> str:
    if text.upper() not in logging.getLevelNamesMapping():
        raise ValueError(f"unknown level {text!r}, expected one such as DEBUG, INFO or WARNING")
    return text.upper()


def _address(text: str) -> str:
    if not text:
        raise ValueError("not set, expected the event address of the control plane as host:port")
    host, _, port = text.rpartition(":")
    if not host or "/" in host or not port.isdecimal() or not 0 < int(port) <= 65535:
        raise ValueError(f"invalid address {text!r}, expected host:port")
    return text


Port = Annotated[int, Field(ge=0, le=65535)]
Count = Annotated[int, Field(ge=1, le=1_000_000)]
Seconds = Annotated[float, Field(gt=0, le=3600, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1, allow_inf_nan=False)]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda given: given or None)]


class SkrWatcherSettings(BaseModel):
    """Where the Watcher listens, its certificate files, and where the control plane is."""

    model_config = ConfigDict(frozen=True, validate_by_name=True, validate_by_alias=True)

    webhook_host: str = Field(
        default="",
        validation_alias="WEBHOOK_HOST",
        description="Address of the webhook; every one, IPv4 and IPv6, if empty.",
    )
    webhook_port: Port = Field(default=8443, validation_alias="WEBHOOK_PORT", description="Port of the webhook.")
    metrics_host: str = Field(
        default="",
        validation_alias="METRICS_HOST",
        description="Address of metrics and probes; every one if empty.",
    )
    metrics_port: Port = Field(default=2112, validation_alias="METRICS_PORT", description="Port of metrics and probes.")
    tls_cert: Path = Field(
        default=Path("/tls/tls.crt"),
        validation_alias="TLS_CERT",
        description="File with the certificate, for the webhook and for events.",
    )
    tls_key: Path = Field(default=Path("/tls/tls.key"), validation_alias="TLS_KEY", description="File with its key.")
    ca_cert: Path = Field(
        default=Path("/tls/ca.crt"),
        validation_alias="CA_CERT",
        description="File with the CAs of the control plane.",
    )
    api_server_ca: OptionalPath = Field(
        default=None,
        validation_alias="API_SERVER_CA",
        description="File with a CA: only clients with a certificate of it may send admission requests.",
    )
    kcp_address: Annotated[str, AfterValidator(_address)] = Field(
        default="",
        validation_alias="KCP_ADDR",
        description="The event address of the control plane, as host:port. Required.",
    )
    kcp_contract: str = Field(
        default="v2", validation_alias="KCP_CONTRACT", description="Version of the contract in the path of events."
    )
    kcp_listener: Listener = Field(
        default=OURS,
        validation_alias="KCP_LISTENER",
        description="Kind of the event listener there: klm, which verifies signatures, or upstream, which does not.",
    )
    resync_manager: str = Field(
        default="lifecycle-manager",
        validation_alias="RESYNC_MANAGER",
        description="Manager to which heartbeats and RESYNC events are sent.",
    )
    heartbeat_seconds: Seconds = Field(
        default=46.0,
        validation_alias="HEARTBEAT_SECONDS",
        description="Seconds without an event after which a heartbeat is sent.",
    )
    max_pending: Count = Field(
        default=3_000,
        validation_alias="MAX_PENDING",
        description="Maximum of changes to be delivered; beyond it they become one RESYNC.",
    )
    max_connections: Count = Field(
        default=40, validation_alias="MAX_CONNECTIONS", description="Maximum of connections to the webhook."
    )
    drain_seconds: Seconds = Field(
        default=10.0,
        validation_alias="DRAIN_SECONDS",
        description="Seconds at the end in which events are still delivered.",
    )
    log_level: Annotated[str, AfterValidator(_level)] = Field(
        default="INFO", validation_alias="LOG_LEVEL", description="The least level that is logged."
    )
    otlp_endpoint: Annotated[str, AfterValidator(endpoint_of)] = Field(
        default="",
        validation_alias="OTLP_ENDPOINT",
        description="URL of an OpenTelemetry collector for traces; none if empty.",
    )
    trace_sampling_ratio: Share = Field(
        default=0.0,
        validation_alias="TRACE_SAMPLING_RATIO",
        description="Share of the changes that are traced, from 0 to 1.",
    )
    debug_socket: OptionalPath = Field(
        default=None, validation_alias="DEBUG_SOCKET", description="Unix socket that answers `klm debug`."
    )
    fips_only: bool = Field(
        default=False,
        validation_alias="FIPS_ONLY",
        description="Do not start without OpenSSL's FIPS provider.",
    )

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "SkrWatcherSettings":
        """Read the settings. Raises SettingInvalid, naming each variable that is invalid or missing."""
        try:
            return cls.model_validate({"KCP_ADDR": "", **environment}, by_name=False)
        except ValidationError as error:
            problems = (f"{each['loc'][0]}: {each['msg'].removeprefix('Value error, ')}" for each in error.errors())
            raise SettingInvalid("; ".join(problems)) from None
