"""Where the code concludes that something does not exist, and why that is proven there.

`NotFound` says that a server has no object of this name; `KindUnknown` and `NotServed` say nothing of objects. Objects
in inventories are read by `find_object`, kinds by `read_kind`, which decide for all others what counts. Whoever adds a
place says here why absence is proven by it, or that nothing is deleted, forgotten or called done on it.
"""

import ast
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[2]
ERRORS = frozenset({"NotFound", "KindUnknown", "NotServed"})


def places() -> Iterator[str]:
    for file in sorted((*ROOT.glob("*/src/**/*.py"), *ROOT.glob("*/*/src/**/*.py"))):
        if "/kube_simulation/" in str(file):
            continue
        module = Path(*file.parts[file.parts.index("src") + 1 :])
        for name, body in _functions(ast.parse(file.read_text())):
            if any(_decides(node) for node in _own_nodes(body)):
                yield f"{module} {name}"


def _functions(tree: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node.name, node


def _own_nodes(function: ast.AST) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions in it."""
    waiting = list(ast.iter_child_nodes(function))
    while waiting:
        node = waiting.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            waiting += ast.iter_child_nodes(node)


def _decides(node: ast.AST) -> bool:
    """Tell whether a node catches one of the errors, or asks whether an error is one."""
    if isinstance(node, ast.ExceptHandler):
        return node.type is not None and _names(node.type)
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in {"suppress", "isinstance"}:
        return any(map(_names, node.args))
    return False


def _names(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Name) and each.id in ERRORS for each in ast.walk(node))


GONE = "deletes, releases or marks one object: the server says that there is none of this name"
BUILT_IN = "one object of a kind that every server serves"
NOTHING = "nothing is deleted, forgotten or called done on it: "
PROVEN = {
    "kube_runtime/apply/applier.py _bring": NOTHING + "the kind is looked up again, and the object applied",
    "kube_runtime/apply/applier.py _read": "one object, in the version and scope in which it was just looked up",
    "kube_runtime/apply/applier.py intended": NOTHING + "an object of a kind that is not served can't be created",
    "kube_runtime/apply/existence.py find_object": "here it is decided for objects",
    "kube_runtime/apply/existence.py read_kind": "here it is decided for kinds",
    "kube_runtime/apply/writing.py taken_over": NOTHING + "the object is applied",
    "kube_runtime/apply/removal.py _remove": GONE,
    "kube_runtime/client/reading.py _request": NOTHING + "raised again, as what it says of the kind",
    "kube_runtime/client/discovery.py resource": NOTHING + "one version; `served` asks for all",
    "kube_runtime/client/discovery.py _defined_by": BUILT_IN,
    "kube_runtime/client/discovery.py served": "here it is decided for kinds; all versions are asked for, and CRDs",
    "kube_runtime/event_recorder.py _send": NOTHING + "the Event is created again",
    "kube_runtime/finalizers.py remove_finalizers": GONE,
    "kube_runtime/informer/informer.py _advised": NOTHING + "a message",
    "kube_runtime/leases/membership.py _leave": GONE,
    "kube_runtime/leases/membership.py _remove_left_over": GONE,
    "kube_runtime/leases/membership.py _write": BUILT_IN,
    "kube_runtime/owner.py write_status": NOTHING + "a message",
    "kyma_demo/pods.py is_ready": NOTHING + "waits",
    "kyma_demo/playground/kubelet.py _sync": "one Secret of a kind that every server serves: its Watcher is stopped",
    "kyma_demo/programs.py _mount_secret": NOTHING + "waits",
    "kyma_demo/user.py maybe_get": NOTHING + "waits",
    "kyma_takeover/adoption/cluster.py catalog_pages": NOTHING + "for a report, and what can't be read stays as it is",
    "kyma_takeover/adoption/giving_back.py _delete": GONE,
    "kyma_takeover/adoption/giving_back.py _delete_certificate": "no cert-manager or Gardener, or " + GONE,
    "kyma_takeover/adoption/giving_back.py _return": GONE,
    "kyma_takeover/adoption/giving_back.py sync_resources": NOTHING + "what can't be read keeps its finalizer",
    "kyma_takeover/adoption/reading.py former_lease": BUILT_IN,
    "kyma_takeover/adoption/steps.py _delete_ca": GONE,
    "kyma_takeover/adoption/steps.py one": GONE,
    "kyma_fleet/checking/command.py _maybe": NOTHING + "a report",
    "kyma_fleet/checking/command.py _serves": NOTHING + "a report",
    "kyma_fleet/control_plane.py require_control_plane": NOTHING + "a message",
    "kyma_fleet/identities.py _delete": GONE,
    "kyma_fleet/identities.py _is_there": BUILT_IN,
    "kyma_fleet/identities.py _removed": GONE,
    "kyma_fleet/registration/accounts.py account_in": "one ServiceAccount: one that is not there has no uid",
    "kyma_fleet/registration/leave.py _delete_access": GONE,
    "kyma_fleet/registration/leave.py _delete_kyma": GONE,
    "kyma_fleet/registration/progress.py kyma_named": "one Kyma by name: the server says that there is none",
    "kyma_fleet/running.py main": NOTHING + "a message",
    "kyma_local/cluster.py address_of": NOTHING + "no connection is made",
    "kyma_module_manager/writer.py delete_sync_resource": GONE,
    "kyma_module_manager/writer.py status": GONE,
    "lifecycle_manager/catalog_sync/apply.py _apply": NOTHING + "the refusal before is raised",
    "lifecycle_manager/catalog_sync/apply.py _delete": GONE,
    "lifecycle_manager/catalog_sync/apply.py _raise_refusals": NOTHING + "all is written again, after the CRDs",
    "lifecycle_manager/catalog_sync/apply.py delete_crds": GONE,
    "lifecycle_manager/catalog_sync/controller.py bring": NOTHING + "the CRDs are applied, and all is written again",
    "lifecycle_manager/endpoints.py _register_webhooks": NOTHING + "the configuration is created again",
    "lifecycle_manager/istio/controller.py reconcile": BUILT_IN,
    "lifecycle_manager/kyma/deletion/apply.py _purge": NOTHING + "finalizers stay where they can't be removed",
    "lifecycle_manager/kyma/deletion/apply.py _apply_in_skr": GONE,
    "lifecycle_manager/kyma/deletion/apply.py _remove_crd": GONE,
    "lifecycle_manager/kyma/snapshot.py read_skr": "the Kyma by name, or no such kind by `kind_is_gone`",
    "lifecycle_manager/kyma/writes.py _change_module": GONE,
    "lifecycle_manager/module_authorization/checking.py _find_out": NOTHING + "the protection counts as not in force",
    "lifecycle_manager/module_authorization/checking.py _probe": NOTHING + "the protection counts as not in force",
    "lifecycle_manager/module_catalog/controller.py _record": GONE,
    "lifecycle_manager/module_catalog/templates.py reconcile": GONE,
    "lifecycle_manager/module_catalog/verification.py _verify": GONE,
    "lifecycle_manager/module_catalog/writing.py _take_fields_over": GONE,
    "lifecycle_manager/module_catalog/writing.py delete_manifest": GONE,
    "lifecycle_manager/module_config/reading.py _resources": NOTHING + "the ModuleConfigs of such a kind stay",
    "lifecycle_manager/module_config/reading.py find_some": "one Module CR, in a version and scope that is served",
    "lifecycle_manager/module_config/writes.py _delete": GONE,
    "lifecycle_manager/module_config/writes.py _set_condition": GONE,
    "lifecycle_manager/module_config/writes.py carry_out": NOTHING + "a report that the namespace is missing",
    "lifecycle_manager/module_config/writes.py why_refused": NOTHING + "a report that the namespace is missing",
    "lifecycle_manager/module_cr_status/controller.py reconcile": NOTHING
    + "the status is read again before it is written",
    "lifecycle_manager/module_cr_status/schema.py read": NOTHING + "fields are written as if there were no schema",
    "lifecycle_manager/module_installation/apply.py _delete": GONE,
    "lifecycle_manager/module_installation/apply.py _module_cr": "one Module CR, in a version and scope that is served",
    "lifecycle_manager/module_installation/logins.py _default": NOTHING + "the module is not installed",
    "lifecycle_manager/module_installation/reading.py kind_defined_by": BUILT_IN,
    "lifecycle_manager/module_rollouts/writes.py delete": GONE,
    "lifecycle_manager/module_rollouts/writes.py write": GONE,
    "lifecycle_manager/object_set/apply.py _change_metadata": GONE,
    "lifecycle_manager/object_set/apply.py leave": GONE,
    "lifecycle_manager/process/prerequisites.py _missing": NOTHING + "the process ends before it begins",
    "lifecycle_manager/skr/finalizers.py strip_finalizers": GONE,
    "lifecycle_manager/skr_webhook/object_rules.py _ask_for_user": NOTHING + "repairs are made at the interval",
    "lifecycle_manager/skr_webhook/object_rules.py _rules_of": NOTHING + "repairs are made at the interval",
    "lifecycle_manager/skr_webhook/snapshot.py read": NOTHING + "reported, and looked up again",
    "kyma_takeover/certificates.py read_secret": BUILT_IN,
    "kyma_takeover/lease.py _take": BUILT_IN,
    "lifecycle_manager/watcher_certificates/ca_store.py ensure": BUILT_IN,
}


def test_each_place_that_concludes_absence_says_why_it_is_proven() -> None:
    found = {*places()}
    assert sorted(found - {*PROVEN}) == [], "say in PROVEN why absence is proven there"
    assert sorted({*PROVEN} - found) == [], "these places are gone"
