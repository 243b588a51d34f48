"""The options of `klm run`, of all domains together. Flags over environment over defaults, validated at start.

`lifecycle_manager.options` declares them. In the environment an option is `KLM_` and its name in capitals.
"""

from collections.abc import Mapping
from functools import cache
from typing import TypeVar

from pydantic import ValidationError

from lifecycle_manager.contract.former import takeover
from lifecycle_manager.options.clusters import SkrSettings
from lifecycle_manager.options.configuration import ModuleConfigSettings, ModuleCrStatusSettings, SyncResourceSettings
from lifecycle_manager.options.endpoints import EndpointSettings, PageSettings
from lifecycle_manager.options.kymas import CatalogSettings, KymaSettings, MandatorySettings
from lifecycle_manager.options.model import DomainSettings, Option, nested, options_of, texts_of
from lifecycle_manager.options.modules import ManifestSettings, ModuleAuthorizationSettings, SourceSettings
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.options.replicas import ReplicaSettings
from lifecycle_manager.options.watcher import CertificateSettings, IstioSettings, WatcherSettings

T = TypeVar("T")
PREFIX = "KLM_"

GROUPS: Mapping[str, tuple[type[DomainSettings], ...]] = {
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
        variables = {PREFIX + name.upper().replace("-", "_"): name for name in options()}
        values: dict[str, object] = {
            variables[each]: value for each, value in (environment or {}).items() if each in variables
        }
        values |= {name.replace("_", "-"): value for name, value in (given or {}).items()}
        problems = [(name, "there is no such option") for name in sorted(values.keys() - options().keys())]
        self._settings: dict[type[DomainSettings], DomainSettings] = {}
        for kind in (kind for group in GROUPS.values() for kind in group):
            try:
                self._settings[kind] = kind.model_validate(nested(kind, values))
            except ValidationError as error:
                problems += _problems(error)
        if problems := problems or [("", rule) for rule in self._broken_rules()]:
            raise SettingsInvalid(tuple(dict.fromkeys(problems)))  # an option of several domains is named once

    def __getitem__(self, kind: type[T]) -> T:
        found: T = self._settings[kind]  # type: ignore[index, assignment]  # which the constructor knows
        return found

    def shown(self) -> dict[str, str]:
        shown: dict[str, str] = {}
        for each in reversed(self._settings.values()):  # of a shared option the first
            shown |= texts_of(each)
        return shown

    def _broken_rules(self) -> list[str]:
        """Return what the settings of one domain can't see."""
        leaf, routes, endpoint = self[CertificateSettings].leaf, self[IstioSettings], self[EndpointSettings]
        rules = {
            "events cannot be signed with RSA keys: self-signed-cert-key-algorithm RSA needs accept-unsigned-events": (
                leaf.algorithm == "RSA" and not endpoint.accept_unsigned_events
            ),
            "watcher-virtual-services needs trusted-proxy-cidrs: the addresses of the Istio gateway": (
                routes.enabled and not endpoint.trusted_proxies
            ),
        }
        return [*(rule for rule, is_broken in rules.items() if is_broken), *takeover().objections(self)]


@cache
def grouped() -> Mapping[str, tuple[Option, ...]]:
    """Return the options by the titles of their groups; a shared one is in the first."""
    found: set[str] = set()
    groups: dict[str, tuple[Option, ...]] = {}
    for title, kinds in GROUPS.items():
        group = {each.name: each for kind in kinds for each in options_of(kind) if each.name not in found}
        groups[title] = tuple(group.values())
        found |= group.keys()
    return groups


@cache
def options() -> Mapping[str, Option]:
    """Return all options by their names."""
    return {each.name: each for group in grouped().values() for each in group}


def _problems(error: ValidationError) -> list[tuple[str, str]]:
    """Return the options that are invalid, and why; a rule about several has no name."""
    return [
        (next((str(part) for part in each["loc"] if part in options()), ""), each["msg"].removeprefix("Value error, "))
        for each in error.errors()
    ]
