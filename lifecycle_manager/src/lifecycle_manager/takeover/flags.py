"""The command line of the former version: the arguments of its Deployment start this version too.

Options of the same name and meaning are those of `settings`; for each of the others there is a warning.
"""

from collections.abc import Iterable, Mapping

_RETRIES = "failures are retried after --failure-base-delay to --failure-max-delay"
_GATEWAY = "the event endpoint terminates TLS itself: see --event-address, --trusted-proxy-cidrs and docs/migration.md"
_IMAGE = "use --skr-watcher-image with the image of this version's Watcher"
_PROFILE = "profile the process from outside, as with py-spy"

WITHOUT_EFFECT: Mapping[str, str] = {
    "drop-crd-stored-version-map": "the CRDs serve and store one version",
    "istio-gateway-cert-switch-before-expiration-time": _GATEWAY,
    "istio-gateway-name": _GATEWAY,
    "istio-gateway-namespace": _GATEWAY,
    "istio-gateway-secret-requeue-error-interval": _GATEWAY,
    "istio-gateway-secret-requeue-success-interval": _GATEWAY,
    "istio-gateway-server-cert-expiry-window": _GATEWAY,
    "istio-gateway-server-cert-switch-grace-period": _GATEWAY,
    "istio-namespace": _GATEWAY,
    "kyma-requeue-error-interval": _RETRIES,
    "kyma-requeue-warning-interval": "use --kyma-requeue-success-interval and --kyma-requeue-busy-interval",
    "listener-port-overwrite": "use --event-address with that port",
    "mandatory-module-deletion-requeue-success-interval": "use --mandatory-module-requeue-success-interval",
    "manifest-requeue-error-interval": _RETRIES,
    "manifest-requeue-jitter-percentage": "intervals are spread over the fleet anyway",
    "manifest-requeue-jitter-probability": "intervals are spread over the fleet anyway",
    "manifest-requeue-warning-interval": "use --manifest-requeue-success-interval and --manifest-requeue-busy-interval",
    "metrics-cleanup-interval": "metrics of a Kyma end with it",
    "pprof": _PROFILE,
    "pprof-bind-address": _PROFILE,
    "pprof-server-timeout": _PROFILE,
    "skr-image-pull-secret": "image pull Secrets are not synchronized into clusters",
    "skr-watcher-image-name": _IMAGE,
    "skr-watcher-image-registry": _IMAGE,
    "skr-watcher-image-tag": _IMAGE,
}
"""What to use in place of an option, by its name."""

_BOOLEAN = frozenset({"pprof"})
"""Of these, the options that may have no value."""

_SWITCHES = frozenset({"enable-webhooks", "leader-elect"})
"""Options without a value, in Go with one."""

_VALUES: Mapping[tuple[str, str], tuple[str, str]] = {
    ("cert-management", "cert.gardener.cloud/v1alpha1"): ("built-in", "certificates are issued without Gardener's"),
}
"""Values that this version does not have: the one that is used, and why."""


def adapted(arguments: Iterable[str]) -> tuple[list[str], list[str]]:
    """Return the arguments for this version, and a warning for each that has no effect or another one."""
    kept: list[str] = []
    warnings: list[str] = []
    given = iter(arguments)
    for argument in given:
        name, separator, value = _normal(argument).partition("=")
        option = name.removeprefix("--")
        if option in WITHOUT_EFFECT:
            if not separator and option not in _BOOLEAN:
                next(given, "")
            warnings.append(f"{name} has no effect: {WITHOUT_EFFECT[option]}")
            continue
        if option in _SWITCHES and separator:
            kept.append(f"--{option}" if value.lower() in {"1", "t", "true"} else f"--no-{option}")
            continue
        if option in {"log-level", "cert-management"} and not separator:
            separator, value = "=", next(given, "")
        kept.append(f"{name}{separator}{_value(option, value, warnings)}")
    return kept, warnings


def _normal(argument: str) -> str:
    """Return an option with two dashes, as Go also takes it with one."""
    single = len(argument) > 2 and argument[0] == "-" and argument[1].isalpha()
    return f"-{argument}" if single else argument


def _value(option: str, value: str, warnings: list[str]) -> str:
    if option == "log-level" and value.lstrip("-").isdecimal():  # a verbosity: more with the distance from 0
        return "INFO" if int(value) == 0 else "DEBUG"
    if (option, value) in _VALUES:
        used, reason = _VALUES[option, value]
        warnings.append(f"--{option}={value} is taken as {used}: {reason}")
        return used
    return value
