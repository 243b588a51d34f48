"""How a domain declares the options of `klm run` that are its own: as fields of its settings, by `option`.

    @dataclass(frozen=True, slots=True, kw_only=True)
    class SourceSettings:
        registry_path: str = option("", "modules-repository-subpath", "path of the components in that registry")

The field has the value that the domain works with, the option the name and the text that people write. The names are
upstream Kyma's where they mean the same, so that existing Deployments carry over. `lifecycle_manager.settings` joins
the settings of all domains. An option that several of them need is declared here, once;
where it is not given, each has its own default.
"""

import dataclasses
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import timedelta
from ipaddress import IPv6Address, ip_address
from typing import Annotated, Any, Literal, TypeVar, cast, get_type_hints

from annotated_types import Ge, Gt, Le

from kyma_diagnostics.tracing import endpoint_of
from lifecycle_manager_api import names

T = TypeVar("T")
KEY = "option"
REPLICA_HOST = f"replica.{names.LIFECYCLE_MANAGER}.{names.KCP_NAMESPACE}"
"""The DNS name in the certificates of replicas; no certificate of a Watcher has it."""

CertManagement = Literal["built-in", "cert-manager.io/v1", "cert.gardener.cloud/v1alpha1"]
BUILT_IN: CertManagement = "built-in"
GARDENER: CertManagement = "cert.gardener.cloud/v1alpha1"

_UNITS = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "h": timedelta(hours=1),
}
MAX_DURATION = timedelta(days=365_000)
"""A time of now plus this is one that Python has."""
_PART = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h)")


@dataclass(frozen=True, slots=True)
class Option:
    """The name of an option, without dashes in front, and what `--help` says of it."""

    name: str
    help: str


@dataclass(frozen=True, slots=True)
class Before:
    """In `Annotated`: a function gets the value before it is checked for the type, and raises ValueError.

    It is what pydantic has, whose import takes longer than all else that `klm run --help` needs.
    """

    convert: Callable[[Any], Any]

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import BeforeValidator  # only where values are read

        return BeforeValidator(self.convert).__get_pydantic_core_schema__(source, handler)


@dataclass(frozen=True, slots=True)
class After(Before):
    """In `Annotated`: the function gets the value of the type."""

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        from pydantic import AfterValidator

        return AfterValidator(self.convert).__get_pydantic_core_schema__(source, handler)


@dataclass(frozen=True, slots=True)
class OptionField:
    """A field that an option sets. `path` leads to it from the settings of the domain."""

    option: Option
    path: tuple[str, ...]
    type: Any
    default: Any


def option(default: T, name: str, help_text: str) -> T:
    """Return a field of a dataclass whose value is that of an option."""
    return dataclasses.field(default=default, metadata={KEY: Option(name, help_text)})


def fields_of(settings: type[Any], path: tuple[str, ...] = ()) -> Iterator[OptionField]:
    """Yield the fields of a settings class that options set, and those of the settings in it."""
    types = get_type_hints(settings, include_extras=True)
    for each in dataclasses.fields(settings):
        declared, inner = each.metadata.get(KEY), types[each.name]
        if declared is not None:
            yield OptionField(declared, (*path, each.name), inner, each.default)
        elif dataclasses.is_dataclass(inner):
            yield from fields_of(cast("type[Any]", inner), (*path, each.name))


def parse_duration(text: object) -> timedelta:
    """Return a duration as Kubernetes writes it, of 1,000 years at most. Raises ValueError."""
    if isinstance(text, timedelta):
        return text
    if text == "0":  # the only one without a unit
        return timedelta()
    parts = _PART.findall(text) if isinstance(text, str) else []
    if not parts or "".join(number + unit for number, unit in parts) != text:
        raise ValueError(f"invalid duration {text!r}: expected one like 100ms, 30s, 5m or 1h30m")
    try:
        duration = sum((float(number) * _UNITS[unit] for number, unit in parts), timedelta())
    except OverflowError:
        duration = timedelta.max
    if duration > MAX_DURATION:
        raise ValueError(f"invalid duration {str(text)[:64]!r}: more than 1,000 years")
    return duration


def format_duration(duration: timedelta) -> str:
    """Return a duration as `parse_duration` reads it."""
    hours, rest = divmod(duration, timedelta(hours=1))
    minutes, rest = divmod(rest, timedelta(minutes=1))
    seconds, rest = divmod(rest, timedelta(seconds=1))
    counts = ((hours, "h"), (minutes, "m"), (seconds, "s"), (rest // timedelta(milliseconds=1), "ms"))
    return "".join(f"{count}{unit}" for count, unit in counts if count) or "0s"


def _seconds(given: object) -> object:
    return parse_duration(given).total_seconds() if isinstance(given, str | timedelta) else given


def host_and_port(address: object) -> tuple[str, int]:
    """Return the two parts of an address, an empty host for every interface. Raises ValueError."""
    if isinstance(address, tuple):
        return cast("tuple[str, int]", address)
    host, separator, port = str(address).rpartition(":")
    if not separator or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"invalid address {address!r}: expected host:port, such as 10.0.0.1:8082 or :8082")
    return host.strip("[]"), int(port)


def _checked_address(address: str) -> str:
    """Return an address as it stands in a URL: an IPv6 address, such as that of a Pod, in brackets."""
    host, port = host_and_port(address)
    if ":" not in host:
        return address
    try:
        return f"[{IPv6Address(host)}]:{port}"
    except ValueError:
        raise ValueError(f"invalid address {address!r}: expected host:port, such as [fd00::1]:8443") from None


def _address_with_host(address: str) -> str:
    if address and not address.rpartition(":")[0]:
        raise ValueError(f"invalid address {address!r}: expected a host, such as 10.0.0.1:8443")
    return _checked_address(address) if address else ""


def _loopback(address: object) -> tuple[str, int] | None:
    if address is None or address == "":
        return None
    host, port = host_and_port(address)
    if not host or not ip_address(host).is_loopback:  # an invalid address raises ValueError, too
        raise ValueError(f"invalid address {address!r}: expected one of this machine, such as 127.0.0.1:8090")
    return host, port


def split_texts(given: object) -> object:
    """Return the parts of texts that are separated by commas, as in one variable of the environment."""
    if isinstance(given, str):
        return tuple(filter(None, given.split(",")))
    if isinstance(given, tuple | list) and all(isinstance(each, str) for each in given):
        return tuple(part for each in given for part in each.split(",") if part)
    return given


def _namespace(name: str) -> str:
    if not re.fullmatch(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?", name):
        raise ValueError(f"invalid namespace {name!r}: expected lower case letters, digits and '-', at most 63")
    return name


def matching(pattern: str) -> After:
    """Return what refuses texts that a pattern does not match as a whole."""

    def check(text: str) -> str:
        if not re.fullmatch(pattern, text):
            raise ValueError(f"invalid value {text!r}: expected one that matches {pattern}")
        return text

    return After(check)


def burst_of(qps: float) -> int:
    """Return how many requests may be sent at once at a rate."""
    return max(1, round(2 * qps))


Count = Annotated[int, Ge(1)]
Rate = Annotated[float, Gt(0)]
Duration = Annotated[timedelta, Before(parse_duration)]
Seconds = Annotated[float, Before(_seconds)]
"""A duration, which the domain reads in seconds."""
BindAddress = Annotated[tuple[str, int], Before(host_and_port)]
LoopbackAddress = Annotated[tuple[str, int] | None, Before(_loopback)]
HostAndPort = Annotated[str, After(_checked_address)]
OptionalHostAndPort = Annotated[str, After(_address_with_host)]
Texts = Annotated[tuple[str, ...], Before(split_texts)]
"""Several values: the option is given several times, or they are separated by commas."""
Namespace = Annotated[str, After(_namespace)]
OptionalNamespace = Annotated[str, After(lambda name: _namespace(name) if name else "")]
Share = Annotated[float, Ge(0), Le(1)]
OtlpEndpoint = Annotated[str, After(endpoint_of)]
SecretName = Annotated[str, matching(r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?)?")]


def pull_secret_option() -> str:
    """Return the field with the name of the image pull Secret."""
    return option(
        "",
        "skr-image-pull-secret",
        "Secret in kcp-system for private images: copied to kyma-system of every SKR, and named by Pods of the Watcher "
        "and of Deployments and StatefulSets of modules; default: none",
    )


def sync_namespace_option() -> str:
    """Return the field with the namespace of modules' objects that name none."""
    return option(
        names.SKR_NAMESPACE,
        "sync-namespace",
        "namespace in SKRs for default Module CRs and for objects of modules that name none; created if missing. The "
        "Kyma CR, the module catalog and the Watcher are always in kyma-system",
    )


def event_address_option() -> str:
    """Return the field with the address of the event endpoint, as Watchers reach it."""
    return option("localhost:8082", "event-address", "host:port at which Watchers reach the event endpoint")


def additional_dns_names_option() -> tuple[str, ...]:
    """Return the field with further names of the control plane in certificates."""
    return option((), "additional-dns-names", "additional SANs of the Watchers' certificates")


def webhook_service_option() -> str:
    """Return the field with the Service of the admission endpoint."""
    return option("lifecycle-manager-webhook", "webhook-service", "Service of that address, port 443")


def deletion_interval_option() -> float:
    """Return the field with the interval of what is being deleted with a Kyma."""
    return option(5.0, "kyma-requeue-busy-interval", "interval at which a Kyma is reconciled that is being deleted")


def restricted_modules_option() -> tuple[str, ...]:
    """Return the field with the modules that need a selector."""
    return option(
        (),
        "restricted-default-modules",
        "modules for those Kymas alone that the kymaSelector of their ModuleReleaseMeta matches; without a selector "
        "nobody may have them",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PurgeSettings:
    """Whether and when finalizers are removed that nobody acts on any more."""

    enabled: bool = option(
        False,
        "enable-purge-finalizer",
        "remove finalizers of objects that modules left in an SKR whose Kyma is being deleted",
    )
    timeout: Duration = option(
        timedelta(minutes=5), "purge-finalizer-timeout", "time after which finalizers of such objects are removed"
    )

    @property
    def after(self) -> timedelta | None:
        """How long after the deletion of a Kyma, None for never."""
        return self.timeout if self.enabled else None


def trace_sampling_ratio_option() -> float:
    """Return the field with the share of traces that are sent."""
    return option(
        0.01,
        "trace-sampling-ratio",
        "share of changes whose traces are sent; those of changes that fail or take more than a second are sent in any "
        "case",
    )


def fips_only_option() -> bool:
    """Return the field that demands OpenSSL's FIPS provider of this process and of the Watchers."""
    return option(
        False, "fips-only", "start only where OpenSSL's FIPS provider is the only one; the Watchers do the same"
    )


def concurrency_option(default: int = 50) -> int:
    """Return the field with the concurrency of one kind; the option sets that of all."""
    return option(
        default,
        "max-concurrent-reconciles",
        "concurrent reconciles of each kind; by default 20 of Watchers, catalogs and mandatory modules",
    )


def interval_option(default: float) -> float:
    """Return the field with the interval of a Kyma or a part of it; the option sets that of all."""
    return option(
        default,
        "kyma-requeue-success-interval",
        "interval at which a Kyma, its Module CRs, Watcher, catalog and mandatory modules are reconciled without an "
        "event; by default 5m for Watchers and mandatory modules, 10m for catalogs",
    )


def objects_interval_option(default: float) -> float:
    """Return the field with the interval of Manifests or of SyncResources; the option sets both."""
    return option(
        default,
        "manifest-requeue-success-interval",
        "interval at which the objects of Manifests and SyncResources are reconciled without an event; by default 2m "
        "for SyncResources",
    )


def lease_namespace_option() -> str:
    """Return the field with the namespace of the replicas' Leases."""
    return option(
        names.KCP_LEASE_NAMESPACE,
        "leader-election-namespace",
        "namespace of those Leases, in which nobody but Lifecycle Manager may write",
    )


def replica_bind_address_option() -> tuple[str, int]:
    """Return the field with the address at which this replica listens to others."""
    return option(("", 8443), "replica-bind-address", "listen address for events from other replicas")


def istio_namespace_option() -> str:
    """Return the field with the namespace of Istio."""
    return option("istio-system", "istio-namespace", "namespace of Istio, and of the gateway's Secret")


@dataclass(frozen=True, slots=True, kw_only=True)
class EventNames:
    address: HostAndPort = event_address_option()
    additional: Texts = additional_dns_names_option()

    @property
    def hosts(self) -> tuple[str, ...]:
        """All of them, that of the address first."""
        return tuple(dict.fromkeys((host_and_port(self.address)[0], *self.additional)))


def admission_names(service: str) -> tuple[str, ...]:
    """Return the DNS names by which the API server of KCP connects to a Service."""
    name = f"{service}.{names.KCP_NAMESPACE}"
    return (f"{name}.svc", f"{name}.svc.cluster.local", name)
