"""Moves what other field managers have written to another one, so that fields which it leaves out are removed.

Where a program applies under another name than the one that it replaces, the former name would own its fields for ever:
a sidecar that the next version drops would stay. The same where objects were installed by kubectl or Helm before.
"""

from collections.abc import Collection

from kube_runtime.apply.field_sets import Entry, entries_of, fields_of, is_applied, moved, united
from kube_runtime.resource import JsonObject

INSTALLERS = frozenset({"kubectl", "kubectl-client-side-apply", "kubectl-create", "kubectl-replace", "helm"})
"""Field managers of commands that install whole manifests. Those of single edits are not among them."""
_INSTALLED = {
    **{("apps", kind): "f:spec" for kind in ("Deployment", "StatefulSet", "DaemonSet")},
    ("batch", "CronJob"): "f:spec",
    ("", "Service"): "f:spec",
    ("admissionregistration.k8s.io", "ValidatingWebhookConfiguration"): "f:webhooks",
    ("admissionregistration.k8s.io", "MutatingWebhookConfiguration"): "f:webhooks",
}
"""Where lists are merged item by item, so that a former container, port or webhook would stay. Nothing of this holds
data of users: labels, annotations, and the content of ConfigMaps, Secrets and custom resources stay as they are."""


def merged_into(
    field_manager: str, live: JsonObject, former: Collection[str], *, subresource: str = "", installed: bool = False
) -> list[Entry] | None:
    """Return the managedFields in which a field manager has what the former ones have applied; None where nothing is.

    With `installed` also what commands that install manifests have written, see `INSTALLERS`. What was applied by way
    of a subresource is of that alone.
    """
    group = str(live.get("apiVersion", "")).rpartition("/")[0]
    section = _INSTALLED.get((group, str(live.get("kind", "")))) if installed else None

    def take(entry: Entry) -> Entry | None:
        if is_applied(entry) and entry.get("manager") in former:
            return fields_of(entry)
        if section is None or entry.get("manager") not in INSTALLERS:
            return None
        fields = fields_of(entry)
        return {section: fields[section]} if section in fields else None

    written = _as_data(live, {field_manager, *former}) if not subresource else {}
    return moved(field_manager, live, take, subresource=subresource, unowned=written)


def _as_data(live: JsonObject, managers: Collection[str]) -> Entry:
    """Return the `data` of a Secret that these have applied as `stringData`, of which nobody owns what became of it."""
    found: Entry = {}
    for each in entries_of(live) if live.get("kind") == "Secret" else ():
        if is_applied(each) and each.get("manager") in managers and "f:stringData" in fields_of(each):
            found = united(found, {"f:data": fields_of(each)["f:stringData"]})
    return found


def has_applied(live: JsonObject, managers: Collection[str]) -> bool:
    """Tell whether any of these field managers has applied fields of an object, other than of a subresource."""
    return any(
        is_applied(each) and not each.get("subresource") and each.get("manager") in managers
        for each in entries_of(live)
    )
