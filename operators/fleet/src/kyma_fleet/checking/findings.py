"""What each check finds: pure functions from what was read to a finding."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from kube_runtime.ages import age
from kyma_fleet.replicas import Replica
from lifecycle_manager.admission.configuration import webhook_configuration
from lifecycle_manager.contract.fleet import BROKEN, FleetCounts
from lifecycle_manager_api import Watcher, names
from lifecycle_manager_api.conditions import counted

Mark = Literal["ok", "bad", "note"]
OLDEST = (1, 34)
"""The oldest Kubernetes that is tested."""
MAX_SKEW = timedelta(seconds=5)
RENEWAL_OVERDUE = timedelta(days=14)
NAMED = 5
KUBECTL = f"kubectl -n {names.KCP_NAMESPACE}"
_VERSION = re.compile(r"v?(\d{1,4})\.(\d{1,4})")


@dataclass(frozen=True, slots=True)
class Finding:
    """One check: whether it passed, what was found, and what to do where it did not."""

    mark: Mark
    title: str
    text: str
    advice: str = ""


def of_version(version: str) -> Finding:
    """Judge the version of the API server."""
    found = _VERSION.match(version)
    if found is None:
        return Finding("note", "API server", f"version {version or 'unknown'}")
    if (int(found[1]), int(found[2])) < OLDEST:
        wanted = ".".join(map(str, OLDEST))
        return Finding("bad", "API server", f"{version} is older than {wanted}", f"upgrade it to {wanted} or newer")
    return Finding("ok", "API server", version)


def of_clocks(before: datetime, server: datetime | None, after: datetime) -> Finding:
    """Judge the clock of the API server, which answered between two moments and tells whole seconds."""
    if server is None:
        return Finding("note", "clocks", "the API server did not tell its time")
    if server + timedelta(seconds=1) < before - MAX_SKEW or server > after + MAX_SKEW:
        skew = server - after if server > after else before - server
        text = f"this machine's and the API server's differ by {skew.total_seconds():.0f} s"
        return Finding("bad", "clocks", text, "synchronize both by NTP: certificates and events have times")
    return Finding("ok", "clocks", "this machine's and the API server's agree")


def of_crd(name: str, found: Mapping[str, Any] | None, wanted: Mapping[str, Any]) -> Finding | None:
    """Judge a CustomResourceDefinition; None where it is as this version needs it."""
    install = "klm crds --kubeconfig FILE"
    if found is None:
        return Finding("bad", "CRDs", f"{name} is missing", install)
    there = {each["name"]: each for each in found["spec"]["versions"]}
    for version in wanted["spec"]["versions"]:
        if not version.get("served"):
            continue
        known = there.get(version["name"])
        if known is None or not known.get("served"):
            return Finding("bad", "CRDs", f"{name} does not serve {version['name']}", install)
        schemas = (each.get("schema", {}).get("openAPIV3Schema", {}) for each in (known, version))
        missing = sorted(missing_fields(*schemas))
        if missing:
            text = f"{name} lacks {', '.join(missing[:NAMED])}{', …' if len(missing) > NAMED else ''}"
            return Finding("bad", "CRDs", text, install)
    return None


def missing_fields(found: Mapping[str, Any], wanted: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Return the fields of a schema that another one does not have, the outermost only."""
    for name, schema in (wanted.get("properties") or {}).items():
        known = (found.get("properties") or {}).get(name)
        if known is None:
            yield f"{path}{name}"
        else:
            yield from missing_fields(known, schema, f"{path}{name}.")
    items = wanted.get("items")
    if isinstance(items, Mapping):
        yield from missing_fields(found.get("items") or {}, items, f"{path.rstrip('.')}[].")


def of_policy(policy: Mapping[str, Any] | None, binding: Mapping[str, Any] | None) -> Finding:
    """Judge the admission policy that keeps modules apart."""
    title, advice = "module policy", "helm upgrade lifecycle-manager, whose chart has it"
    for kind, found in (("ValidatingAdmissionPolicy", policy), ("ValidatingAdmissionPolicyBinding", binding)):
        if found is None:
            return Finding("bad", title, f"the {kind} that keeps modules apart is missing", advice)
    actions = (binding or {}).get("spec", {}).get("validationActions") or []
    if "Deny" not in actions:
        return Finding("bad", title, "its binding does not deny", advice)
    return Finding("ok", title, "modules are kept apart")


def of_webhooks(configuration: Mapping[str, Any] | None, *, is_enabled: bool) -> Finding:
    """Judge the webhook configuration of Lifecycle Manager. `is_enabled`: it runs with `--enable-webhooks`."""
    advice = "klm status: Lifecycle Manager writes it within 30 s where it runs with --enable-webhooks"
    if configuration is None and not is_enabled:
        return Finding("note", "webhooks", "not installed: invalid resources are found when they are reconciled")
    if configuration is None:
        return Finding("bad", "webhooks", "the ValidatingWebhookConfiguration lifecycle-manager is missing", advice)
    hooks = {each["name"]: each for each in configuration.get("webhooks") or []}
    for wanted in webhook_configuration("", "", b"")["webhooks"]:
        name, found = wanted["name"], hooks.get(wanted["name"])
        if found is None:
            return Finding("bad", "webhooks", f"{name} is missing", advice)
        if not found.get("clientConfig", {}).get("caBundle"):
            return Finding("bad", "webhooks", f"{name} has no CA", advice)
        if changed := [key for key in wanted if key != "clientConfig" and found.get(key) != wanted[key]]:
            return Finding("bad", "webhooks", f"somebody changed {', '.join(changed)} of {name}", advice)
    return Finding("ok", "webhooks", f"{counted(len(hooks), 'webhook')} with a CA")


def of_watchers(watchers: Iterable[Watcher]) -> Finding:
    """Judge the Watcher CRs."""
    known = list(watchers)
    bad = [each for each in known if each.status.state in BROKEN]
    if bad:
        name, state = bad[0].metadata.name, bad[0].status.state.value
        return Finding("bad", "Watchers", f"{name} is {state}", f"{KUBECTL} describe watcher {name}")
    return Finding("ok", "Watchers", f"{counted(len(known), 'Watcher CR')}, none in trouble")


def of_replicas(replicas: Sequence[Replica], now: datetime) -> Finding:
    """Judge the Leases of Lifecycle Manager."""
    if not replicas:
        return Finding("bad", "replicas", "no replica of Lifecycle Manager has a Lease", "start Lifecycle Manager")
    late = [each for each in replicas if each.is_silent(now)]
    if late:
        text = f"{late[0].name} renewed its Lease {age(late[0].renewed, now)} ago"
        return Finding("bad", "replicas", text, "read its log; others take its Kymas over")
    return Finding("ok", "replicas", f"{counted(len(replicas), 'replica')}, all renew their Leases")


def of_clusters(counts: FleetCounts) -> Finding:
    """Judge whether the clusters answer."""
    total, away = counts.clusters, counts.fault("unreachable")
    if away.count:
        worst = away.worst[0]
        text = f"{away.count:,} of {counted(total, 'cluster')} not accessible, such as {worst.kyma}: {worst.reason}"
        return Finding("bad", "clusters", text, f"klm explain {worst.kyma}")
    return Finding("ok", "clusters", f"{counted(total, 'cluster')}, all accessible")


def of_certificates(expiries: Mapping[str, datetime | None], now: datetime) -> Finding:
    """Judge the certificates of the Watchers, by Secret; None stands for one that can't be read."""
    title = "certificates"
    unreadable = sorted(name for name, until in expiries.items() if until is None)
    if unreadable:
        text = f"Secret {unreadable[0]} has no readable certificate"
        return Finding("bad", title, text, f"{KUBECTL} delete secret {unreadable[0]}: it is issued again")
    known = sorted((until, name) for name, until in expiries.items() if until is not None)
    if not known:
        return Finding("note", title, "there are none yet")
    until, name = known[0]
    if until - now < RENEWAL_OVERDUE:
        soon = sum(each - now < RENEWAL_OVERDUE for each, _ in known)
        text = f"{counted(soon, 'certificate')} overdue for renewal; that in Secret {name} ends {until:%Y-%m-%d}"
        return Finding("bad", title, text, f"{KUBECTL} delete secret {name}: it is issued again")
    return Finding("ok", title, f"{counted(len(known), 'certificate')}, the first ends {until:%Y-%m-%d}")


def of_rights(role: str, missing: Collection[str]) -> Finding:
    """Judge the operator's own rights."""
    if missing:
        return Finding("bad", "rights", f"you may not {', '.join(sorted(missing)[:NAMED])}", f"bind {role}")
    return Finding("ok", "rights", f"yours include those of {role}")


def of_kinds(missing: Collection[str]) -> Finding:
    """Judge whether the API server serves the kinds that an installation needs."""
    if missing:
        text = f"the API server does not serve {', '.join(sorted(missing))}"
        return Finding("bad", "API", text, f"upgrade it to {'.'.join(map(str, OLDEST))} or newer")
    return Finding("ok", "API", "serves all kinds that an installation needs")


def not_checked(title: str, why: object) -> Finding:
    """Return the finding of a check that the operator may not do."""
    return Finding("note", title, f"not checked: {why}")
