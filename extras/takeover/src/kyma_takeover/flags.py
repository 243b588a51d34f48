"""The command line of the former version: the arguments of its Deployment start this version too.

Options of the same name and meaning are those of `settings`; for each of the others there is a warning.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

_RETRIES = "failures are retried after 100 ms to --failure-max-delay"
_CONCURRENCY = "use --max-concurrent-reconciles, for all kinds"
_LEASE = "follows --leader-election-lease-duration"
_BURST = "bursts are twice the rate"
_INTERVAL = "use --kyma-requeue-success-interval"
_IMAGE = "use --skr-watcher-image with the image of this version's Watcher"
_PROFILE = "profile the process from outside, as with py-spy"

WITHOUT_EFFECT: Mapping[str, str] = {
    **{
        f"max-concurrent-{each}-reconciles": _CONCURRENCY
        for each in ("kyma", "manifest", "watcher", "mandatory-modules", "mandatory-modules-deletion")
    },
    "drop-crd-stored-version-map": "the CRDs serve and store one version",
    "failure-base-delay": _RETRIES,
    "istio-gateway-cert-switch-before-expiration-time": "it is renewed 30 days before its end",
    "istio-gateway-secret-requeue-error-interval": _RETRIES,
    "istio-gateway-secret-requeue-success-interval": "the Secret of the gateway is checked every hour",
    "istio-gateway-server-cert-expiry-window": "a metric reports it 14 days before its end",
    "istio-gateway-server-cert-switch-grace-period": "use --self-signed-ca-rotation-grace",
    "k8s-client-burst": _BURST,
    "k8s-skr-client-burst": _BURST,
    "kyma-requeue-error-interval": _RETRIES,
    "kyma-requeue-warning-interval": "use --kyma-requeue-success-interval and --kyma-requeue-busy-interval",
    "leader-election-renew-deadline": _LEASE,
    "leader-election-retry-period": _LEASE,
    "listener-port-overwrite": "use --event-address with that port",
    "mandatory-module-deletion-requeue-success-interval": _INTERVAL,
    "mandatory-module-requeue-success-interval": _INTERVAL,
    "manifest-requeue-error-interval": _RETRIES,
    "manifest-requeue-jitter-percentage": "intervals are spread over the fleet anyway",
    "manifest-requeue-jitter-probability": "intervals are spread over the fleet anyway",
    "manifest-requeue-warning-interval": "use --manifest-requeue-success-interval and --manifest-requeue-busy-interval",
    "metrics-cleanup-interval": "metrics of a Kyma end with it",
    "pprof": _PROFILE,
    "pprof-bind-address": _PROFILE,
    "pprof-server-timeout": _PROFILE,
    "rate-limiter-burst": "retries of one controller: 30 a second, and 200 at once",
    "rate-limiter-frequency": "retries of one controller: 30 a second, and 200 at once",
    "self-signed-cert-key-size": "an RSA key has 4096 bits",
    "skr-watcher-image-name": _IMAGE,
    "skr-watcher-image-registry": _IMAGE,
    "skr-watcher-image-tag": _IMAGE,
    "watcher-requeue-success-interval": _INTERVAL,
}
"""What to use in place of an option, by its name."""

_BOOLEAN = frozenset({"pprof"})
"""Of these, the options that may have no value."""

_SWITCHES = frozenset({"enable-purge-finalizer", "enable-webhooks", "leader-elect"})
"""Options without a value, in Go with one."""


@dataclass(frozen=True, slots=True)
class Taken:
    """One option of the former version: how this version is given it, None where it has no effect, and a warning."""

    option: str
    argument: str | None
    warning: str = ""


def adapted(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the arguments for this version, and a warning for each that has no effect or another one."""
    found = list(taken(arguments))
    kept = [each.argument for each in found if each.argument is not None]
    return kept, [each.warning for each in found if each.warning]


def taken(arguments: Iterable[str]) -> Iterator[Taken]:
    """Yield what each argument of the former version is for this one."""
    given = iter(arguments)
    for argument in given:
        name, separator, value = _normal(argument).partition("=")
        option = name.removeprefix("--")
        if option in WITHOUT_EFFECT:
            if not separator and option not in _BOOLEAN:
                next(given, "")
            yield Taken(name, None, f"{name} has no effect: {WITHOUT_EFFECT[option]}")
            continue
        if option in _SWITCHES and separator:
            yield Taken(name, f"--{option}" if value.lower() in {"1", "t", "true"} else f"--no-{option}")
            continue
        if option == "log-level" and not separator:
            separator, value = "=", next(given, "")
        yield Taken(name, f"{name}{separator}{_value(option, value)}")


def _normal(argument: str) -> str:
    """Return an option with two dashes, as Go also takes it with one."""
    single = len(argument) > 2 and argument[0] == "-" and argument[1].isalpha()
    return f"-{argument}" if single else argument


def _value(option: str, value: str) -> str:
    if option == "log-level" and value.lstrip("-").isdecimal():  # a verbosity: more with the distance from 0
        return "INFO" if int(value) == 0 else "DEBUG"
    return value
