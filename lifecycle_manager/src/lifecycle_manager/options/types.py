"""The types of options' values: how each is read, checked and written."""

import re
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from pathlib import Path
from typing import Annotated, cast

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, WithJsonSchema

from kyma_diagnostics.tracing import endpoint_of
from lifecycle_manager.contract.durations import PATTERN, format_duration, parse_duration

ADDRESS = WithJsonSchema({"type": "string"})


def _seconds(given: object) -> object:
    if not isinstance(given, str | timedelta):
        return given
    if duration := parse_duration(given):
        return duration.total_seconds()
    raise ValueError(f"invalid duration {given!r}: expected more than 0")


def host_and_port(address: object) -> tuple[str, int]:
    """Return the two parts of an address, an empty host for every interface. Raises ValueError."""
    if isinstance(address, tuple):
        return cast("tuple[str, int]", address)
    host, separator, port = str(address).rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"invalid address {address!r}: expected host:port, such as 10.0.0.1:8082 or :8082")
    return host.strip("[]"), int(port)


def _address_text(address: tuple[str, int] | None) -> str | None:
    if address is None:
        return None
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _checked_address(address: str) -> str:
    """Return an address as it stands in a URL: an IPv6 address, such as that of a Pod, in brackets."""
    host, port = host_and_port(address)
    if not host or not port or "/" in host:
        raise ValueError(f"invalid address {address!r}: expected a host and a port, such as 10.0.0.1:8443")
    if ":" not in host:
        return address
    try:
        return f"[{IPv6Address(host)}]:{port}"
    except ValueError:
        raise ValueError(f"invalid address {address!r}: expected host:port, such as [fd00::1]:8443") from None


def _loopback(address: object) -> tuple[str, int] | None:
    if address is None or address == "":
        return None
    host, port = host_and_port(address)
    if not host or not ip_address(host).is_loopback:  # an invalid address raises ValueError, too
        raise ValueError(f"invalid address {address!r}: expected one of this machine, such as 127.0.0.1:8090")
    return host, port


def _separated(given: object) -> object:
    """Return the parts of texts that are separated by commas, as in one variable of the environment."""
    texts = (given,) if isinstance(given, str) else given
    if isinstance(texts, tuple | list) and all(isinstance(each, str) for each in texts):
        return tuple(part for each in texts for part in map(str.strip, each.split(",")) if part)
    return given


def _namespace(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise ValueError(f"invalid namespace {name!r}: expected lower case letters, digits and '-', at most 63")
    return name


Count = Annotated[int, Field(ge=1)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(ge=0, le=1)]
Duration = Annotated[
    timedelta,
    BeforeValidator(parse_duration),
    PlainSerializer(format_duration),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
PositiveDuration = Annotated[Duration, Field(gt=timedelta())]
Seconds = Annotated[
    float,
    BeforeValidator(_seconds),
    PlainSerializer(lambda seconds: format_duration(timedelta(seconds=seconds))),
    WithJsonSchema({"type": "string", "pattern": PATTERN}),
]
"""A duration above 0, which the domain reads in seconds."""
BindAddress = Annotated[tuple[str, int], BeforeValidator(host_and_port), PlainSerializer(_address_text), ADDRESS]
LoopbackAddress = Annotated[tuple[str, int] | None, BeforeValidator(_loopback), PlainSerializer(_address_text), ADDRESS]
HostAndPort = Annotated[str, AfterValidator(_checked_address)]
OptionalHostAndPort = Annotated[str, AfterValidator(lambda address: _checked_address(address) if address else "")]
Separated = BeforeValidator(_separated)
Texts = Annotated[tuple[str, ...], Separated]
"""Several values: the option is given several times, or they are separated by commas."""
Namespace = Annotated[str, AfterValidator(_namespace)]
OptionalNamespace = Annotated[str, AfterValidator(lambda name: _namespace(name) if name else "")]
OtlpEndpoint = Annotated[str, AfterValidator(endpoint_of)]
OptionalPath = Annotated[Path | None, BeforeValidator(lambda given: given or None)]
Quantity = Annotated[str, Field(pattern=r"^[0-9]+(\.[0-9]+)?([numkMGTPE]|[KMGTPE]i|[eE][0-9]+)?$")]
SecretName = Annotated[str, Field(pattern=r"^([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?$")]


def burst_of(qps: float) -> int:
    """Return how many requests may be sent at once at a rate."""
    return max(1, round(2 * qps))
