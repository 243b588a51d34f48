"""The options of `klm run`: those of all domains, joined. Flags over environment over defaults, validated at start.

Each domain declares its own (`lifecycle_manager.contract.options`); this module knows which domains there are, reads
values, and checks what concerns several of them. In the environment an option is `KLM_` and its name in capitals.
"""

import dataclasses
from collections.abc import Iterator, Mapping
from datetime import timedelta
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast, get_type_hints

from lifecycle_manager.catalog_sync.settings import CatalogSettings
from lifecycle_manager.contract.former import takeover
from lifecycle_manager.contract.options import OptionField, Seconds, fields_of, format_duration
from lifecycle_manager.endpoint_settings import EndpointSettings, PageSettings
from lifecycle_manager.istio.settings import IstioSettings
from lifecycle_manager.kyma.settings import KymaSettings
from lifecycle_manager.mandatory_modules.settings import MandatorySettings
from lifecycle_manager.module_authorization.settings import ModuleAuthorizationSettings
from lifecycle_manager.module_config.settings import ModuleConfigSettings
from lifecycle_manager.module_cr_status.settings import ModuleCrStatusSettings
from lifecycle_manager.module_installation.settings import ManifestSettings, SourceSettings
from lifecycle_manager.process.settings import ProcessSettings
from lifecycle_manager.replicas.settings import ReplicaSettings
from lifecycle_manager.skr.settings import SkrSettings
from lifecycle_manager.skr_webhook.settings import WatcherSettings
from lifecycle_manager.sync_resource.settings import SyncResourceSettings
from lifecycle_manager.watcher_certificates.settings import CertificateSettings

T = TypeVar("T")
PREFIX = "KLM_"

GROUPS: Mapping[str, tuple[type[Any], ...]] = {
    "Process": (ProcessSettings,),
    "Replicas": (ReplicaSettings, *takeover().settings),
    "Endpoints": (EndpointSettings, PageSettings),
    "Access to clusters": (SkrSettings,),
    "Kymas": (KymaSettings, CatalogSettings, MandatorySettings),
    "Modules": (ManifestSettings, SourceSettings, ModuleAuthorizationSettings),
    "Configuration of modules": (ModuleConfigSettings, ModuleCrStatusSettings, SyncResourceSettings),
    "Watcher": (WatcherSettings, CertificateSettings, IstioSettings),
}
"""The settings of all domains, by their title in `klm run --help`."""


class SettingsInvalid(Exception):
    """Options that this program can't start with: the name of each, and why. A rule about several has no name."""

    def __init__(self, problems: tuple[tuple[str, str], ...]) -> None:
        super().__init__("\n".join(f"--{name}: {problem}" if name else problem for name, problem in problems))
        self.problems = problems


class Settings:
    """The settings of each domain, by their class: `settings[KymaSettings]`."""

    def __init__(
        self, given: Mapping[str, object] | None = None, *, environment: Mapping[str, str] | None = None
    ) -> None:
        """Read options by their names, with dashes or underscores. Raises SettingsInvalid with all problems."""
        values = _values({name.replace("_", "-"): value for name, value in (given or {}).items()}, environment or {})
        self._settings = {kind: _built(kind, values) for group in GROUPS.values() for kind in group}
        _check(self)

    def __getitem__(self, kind: type[T]) -> T:
        found: T = self._settings[kind]
        return found

    def shown(self) -> dict[str, str]:
        return {name: text_of(each, _at(self._settings[kind], each.path)) for name, (kind, each) in _firsts().items()}


def all_fields() -> Iterator[tuple[type[Any], OptionField]]:
    """Yield the fields of all options; those of a shared one each time."""
    for group in GROUPS.values():
        for kind in group:
            for each in fields_of(kind):
                yield kind, each


@cache
def _firsts() -> Mapping[str, tuple[type[Any], OptionField]]:
    """Return the fields of all options by their names; of a shared one the first."""
    return {each.option.name: (kind, each) for kind, each in reversed([*all_fields()])}


def options() -> Mapping[str, OptionField]:
    """Return all options by their names."""
    return {name: each for name, (_, each) in _firsts().items()}


def text_of(field: OptionField, value: object = ...) -> str:
    """Return the value of an option as people write it, by default its default."""
    value = field.default if value is ... else value
    match value:
        case timedelta():
            text = format_duration(value)
        case float() if field.type is Seconds:
            text = format_duration(timedelta(seconds=value))
        case (str() as host, int() as port):
            text = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        case tuple():
            text = ",".join(map(str, value))
        case bool():
            text = str(value).lower()
        case Enum():
            text = str(value.value)
        case _:
            text = "" if value is None else str(value)
    return text


def _values(given: Mapping[str, object], environment: Mapping[str, str]) -> dict[str, object]:
    from pydantic import TypeAdapter, ValidationError  # the options are listed without it

    known, found, problems = options(), dict[str, object](), list[tuple[str, str]]()
    for name in sorted(given.keys() - known.keys()):
        problems.append((name, "there is no such option"))
    for name, each in known.items():
        variable = PREFIX + name.upper().replace("-", "_")
        raw = given.get(name, environment.get(variable))
        if raw is None:
            continue
        try:
            found[name] = TypeAdapter(each.type).validate_python(raw)
        except ValidationError as error:
            problems += [(name, problem["msg"].removeprefix("Value error, ")) for problem in error.errors()]
    if problems:
        raise SettingsInvalid(tuple(problems))
    return found


def _built(kind: type[T], values: Mapping[str, object], path: tuple[str, ...] = ()) -> T:
    """Return the settings of a domain. Those in them are made first. Raises SettingsInvalid."""
    by_field = {each.path: each.option.name for each in fields_of(kind)}
    types = get_type_hints(kind)
    made: dict[str, Any] = {}
    for field in dataclasses.fields(cast("Any", kind)):
        name = by_field.get((field.name,))
        if name is not None and name in values:
            made[field.name] = values[name]
        elif name is None and any(each[0] == field.name for each in by_field):
            made[field.name] = _built(types[field.name], values)
    try:
        return kind(**made)
    except ValueError as error:
        raise SettingsInvalid((("", str(error)),)) from error


def _at(settings: object, path: tuple[str, ...]) -> object:
    for name in path:
        settings = getattr(settings, name)
    return settings


def _check(settings: Settings) -> None:
    """Refuse what the settings of one domain can't see. Raises SettingsInvalid."""
    leaf, routes = settings[CertificateSettings].leaf, settings[IstioSettings]
    endpoint = settings[EndpointSettings]
    rules = {
        "events cannot be signed with RSA keys: self-signed-cert-key-algorithm RSA needs accept-unsigned-events": (
            leaf.algorithm == "RSA" and not endpoint.accept_unsigned_events
        ),
        "watcher-virtual-services needs trusted-proxy-cidrs: the addresses of the Istio gateway": (
            routes.enabled and not endpoint.trusted_proxies
        ),
    }
    broken = [rule for rule, is_broken in rules.items() if is_broken]
    broken += takeover().objections(settings)
    if broken:
        raise SettingsInvalid(tuple(("", rule) for rule in broken))
