"""What a change in KCP enqueues in the whole service: the keys that it concerns, in no other queue any key."""

from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from kube_runtime import Change, Priority
from lifecycle_manager.contract.resources import (
    CUSTOM_RESOURCE_DEFINITIONS,
    KYMAS,
    MANIFESTS,
    MODULE_CONFIGS,
    MODULE_POLICIES,
    MODULE_TEMPLATES,
    SECRETS,
    SYNC_RESOURCES,
)
from lifecycle_manager.contract.signals import (
    ClusterReplaced,
    DescriptorFound,
    ReadScope,
)
from lifecycle_manager.contract.verdict import CONFLICT
from lifecycle_manager_api import Manifest, ModuleReleaseMeta, names
from tests import builders
from tests.unit.fleet_of_triggers import ALL, Fleet, open_fleet
from tests.world import KCP

OTHER_DATA = {"apiVersion": "example.com/v1", "kind": "Other", "metadata": {"name": "default"}}


@pytest.fixture
async def fleet() -> AsyncIterator[Fleet]:
    async with open_fleet() as opened:
        yield opened


def released(**given: Any) -> ModuleReleaseMeta:
    return builders.release("api", **given)


async def test_version_bump_enqueues_kymas_that_use_the_channel_before_all_catalogs(
    fleet: Fleet,
) -> None:
    await fleet.apply(released(regular="1.0.0", fast="2.0.0"))
    assert fleet.take() == {
        "kyma": {"uses-fast"},
        "module-config": {"uses-fast/api"},
        "catalog": ALL,
        "mandatory-modules": ALL,
        "mandatory-modules-deletion": {"ModuleReleaseMeta api", "ModuleTemplate api-1.0.0"},
        "module-rollout": {"api/regular", "api/fast"},
    }
    assert not fleet.manager.controllers["catalog"].queue.holds(Priority.CHANGE), "after what users wait for"


async def test_release_that_is_only_touched_enqueues_nothing(fleet: Fleet) -> None:
    await fleet.apply(released(regular="1.0.0", fast="1.0.0"), field_manager="another")
    assert fleet.take() == {}


async def test_found_descriptor_enqueues_those_who_have_the_template_and_no_catalog(fleet: Fleet) -> None:
    fleet.manager.publish(DescriptorFound(KCP, "api-1.0.0"))
    assert fleet.take() == {
        "kyma": {"uses-regular", "uses-fast"},
        "module-config": {"uses-regular/api", "uses-fast/api"},
        "manifest": {"uses-regular-api", "uses-fast-api"},
        "mandatory-modules": ALL,
        "module-template": {"api-1.0.0"},
        "module-rollout": {"api/regular", "api/fast", "api/mandatory"},  # what the template installs may differ now
    }


async def test_what_users_may_have_changed_comes_first_after_a_start(fleet: Fleet) -> None:
    for controller in fleet.manager.controllers.values():
        controller.begin(ALL, frozenset())
    queues = {name: each.queue for name, each in fleet.manager.controllers.items()}
    assert queues["kyma"].keys()
    assert queues["module-config"].keys()
    assert {name for name, queue in queues.items() if queue.holds(Priority.CHANGE)} == {"kyma", "module-config"}


async def test_kyma_of_a_restored_control_plane_is_reconciled_though_its_spec_is_the_same(fleet: Fleet) -> None:
    informer = fleet.manager.informer(KYMAS)
    known = next(each for each in informer.list() if each.metadata.name == "uses-regular")
    informer._notify(Change(known, msgspec.structs.replace(known), may_be_restored=True))  # noqa: SLF001
    assert {"kyma", "catalog", "watcher"} <= fleet.take().keys()


async def test_module_configs_of_a_restored_control_plane_are_read_in_their_cluster(fleet: Fleet) -> None:
    informer = fleet.manager.informer(MODULE_CONFIGS, namespace=None)
    older, newer = (builders.module_config(kyma="uses-regular", module="api", spec={"resource": each}) for each in "ab")
    informer._notify(Change(newer, older, may_be_restored=True))  # noqa: SLF001
    controller = fleet.manager.controllers["module-config"]
    (key,) = controller.queue.keys()
    assert ReadScope.EVERYTHING in controller.waiting_causes(key)


async def test_policy_enqueues_what_its_module_has_and_reads_its_module_crs_again(fleet: Fleet) -> None:
    policy = {"metadata": {"name": "api"}, "spec": {"moduleCrKinds": [{"group": "example.com", "kind": "Other"}]}}
    await fleet.seen(MODULE_POLICIES, fleet.kcp.create(MODULE_POLICIES, policy, KCP, field_manager="operator"))
    assert fleet.take() == {
        "module-config": {"uses-regular/api", "uses-fast/api"},
        "manifest": {"uses-regular-api", "uses-fast-api"},
        "sync-resource": {"uses-regular-sync", "uses-fast-sync"},
    }


async def test_descriptor_of_a_mandatory_template_enqueues_the_installations(fleet: Fleet) -> None:
    await fleet.apply(builders.template("warden", "1.0.0", mandatory=True))
    await fleet.empty()
    fleet.manager.publish(DescriptorFound(KCP, "warden-1.0.0"))
    assert fleet.take() == {
        "mandatory-modules": ALL,
        "module-template": {"warden-1.0.0"},
        "module-rollout": {"warden/mandatory"},
    }


async def test_mandatory_version_enqueues_the_installations_and_the_catalogs(fleet: Fleet) -> None:
    await fleet.apply(builders.release("warden", mandatory="1.0.0"))
    await fleet.empty()
    await fleet.apply(builders.release("warden", mandatory="2.0.0"))
    assert fleet.take() == {
        "catalog": ALL,
        "mandatory-modules": ALL,
        "mandatory-modules-deletion": {"ModuleReleaseMeta warden"},
        "module-rollout": {"warden/mandatory"},
    }


async def test_template_of_the_mandatory_version_enqueues_installations_and_catalogs(fleet: Fleet) -> None:
    await fleet.apply(builders.release("warden", mandatory="1.0.0"))
    await fleet.empty()
    await fleet.apply(builders.template("warden", "1.0.0"))
    assert fleet.take() == {
        "catalog": ALL,
        "mandatory-modules": ALL,
        "mandatory-modules-deletion": {"ModuleTemplate warden-1.0.0"},
        "module-template": {"warden-1.0.0"},
        "module-rollout": {"warden/mandatory"},
    }


async def test_release_that_makes_a_version_mandatory_enqueues_its_templates(fleet: Fleet) -> None:
    """They existed before, as a rule, and nothing else would report that they are mandatory now."""
    for module, version in (("warden", "1.0.0"), ("warden", "2.0.0"), ("nats", "1.0.0")):
        await fleet.apply(builders.template(module, version))
    await fleet.empty()
    await fleet.apply(builders.release("warden", mandatory="1.0.0"))
    assert fleet.take()["mandatory-modules-deletion"] == {
        "ModuleReleaseMeta warden",
        "ModuleTemplate warden-1.0.0",
        "ModuleTemplate warden-2.0.0",
    }


async def test_template_that_becomes_mandatory_enqueues_installations_and_catalogs(fleet: Fleet) -> None:
    await fleet.apply(builders.template("api", "1.0.0", mandatory=True))
    assert fleet.take() == {
        "kyma": {"uses-regular", "uses-fast"},
        "module-config": {"uses-regular/api", "uses-fast/api"},
        "manifest": {"uses-regular-api", "uses-fast-api"},
        "catalog": ALL,
        "mandatory-modules": ALL,
        "mandatory-modules-deletion": {"ModuleTemplate api-1.0.0"},
        "module-template": {"api-1.0.0"},
        "module-rollout": {"api/regular", "api/fast", "api/mandatory"},
    }
    assert fleet.after_what_users_wait_for() == {"catalog", "mandatory-modules"}


async def test_changed_crd_of_kymas_enqueues_them_all_after_what_users_wait_for(fleet: Fleet) -> None:
    for short_names in (["ky"], []):
        await fleet.patch(
            CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, {"spec": {"names": {"shortNames": short_names}}}
        )
        assert fleet.take() == {"kyma": ALL}
        assert fleet.after_what_users_wait_for() == {"kyma"}
        await fleet.empty()


@pytest.mark.parametrize(
    ("change", "options"),
    [
        ({"metadata": {"labels": {"app.kubernetes.io/managed-by": "Helm"}}}, {}),
        ({"status": {"storedVersions": ["v1beta2", "v1beta1"]}}, {"subresource": "status"}),
    ],
    ids=["labels", "status"],
)
async def test_crd_of_kymas_that_is_only_touched_enqueues_nothing(
    fleet: Fleet, change: dict[str, Any], options: dict[str, Any]
) -> None:
    await fleet.patch(CUSTOM_RESOURCE_DEFINITIONS, KYMAS.plural_name, change, **options)
    assert fleet.take() == {}


async def test_access_secret_enqueues_all_of_its_kyma_alone(fleet: Fleet) -> None:
    labels = {names.KYMA_NAME: "uses-fast", names.MANAGED_BY: names.LIFECYCLE_MANAGER}
    document = {"metadata": {"name": "access", "labels": labels}, "data": {}}
    await fleet.seen(SECRETS, fleet.kcp.create(SECRETS, document, KCP, field_manager="broker"))
    of_kyma = {name: {"uses-fast"} for name in ("kyma", "catalog", "mandatory-modules", "skr-token", "watcher")}
    assert fleet.take() == {
        **of_kyma,
        "module-config": {"uses-fast/api"},
        "manifest": {"uses-fast-api"},
        "sync-resource": {"uses-fast-sync"},
    }


async def test_state_of_a_manifest_enqueues_its_kyma_alone(fleet: Fleet) -> None:
    await fleet.patch(MANIFESTS, "uses-fast-api", {"status": {"state": "Ready"}}, subresource="status")
    assert fleet.take() == {"kyma": {"uses-fast"}}


async def test_objects_that_leave_a_manifest_enqueue_the_sync_resources_that_wait_for_some(fleet: Fleet) -> None:
    shared = {"group": "", "version": "v1", "kind": "ConfigMap", "namespace": "shop", "name": "shared"}
    await fleet.patch(MANIFESTS, "uses-fast-api", {"status": {"synced": [shared]}}, subresource="status")
    now = "2026-11-01T12:00:00Z"
    refused = {"type": "Valid", "status": "False", "reason": CONFLICT, "message": "", "lastTransitionTime": now}
    await fleet.patch(SYNC_RESOURCES, "uses-fast-sync", {"status": {"conditions": [refused]}}, subresource="status")
    await fleet.empty()
    await fleet.patch(MANIFESTS, "uses-fast-api", {"status": {"synced": []}}, subresource="status")
    assert fleet.take()["sync-resource"] == {"uses-fast-sync"}


async def test_manifest_whose_state_stays_enqueues_nothing(fleet: Fleet) -> None:
    later = {"lastOperation": {"operation": "", "lastUpdateTime": "2026-11-01T12:00:00Z"}}
    await fleet.patch(MANIFESTS, "uses-fast-api", {"status": later}, subresource="status")
    assert fleet.take() == {}


@pytest.mark.parametrize("mandatory", [True, False], ids=["mandatory", "chosen"])
async def test_manifest_that_is_gone_enqueues_the_mandatory_modules_of_its_kyma(fleet: Fleet, mandatory: bool) -> None:
    """The module of a Manifest that was chosen by users may have become mandatory while it was deleted."""
    manifest: Manifest = builders.manifest("warden", kyma="uses-fast", mandatory=mandatory)
    await fleet.apply(manifest)
    await fleet.empty()
    await fleet.delete(MANIFESTS, manifest.metadata.name)
    assert fleet.take() == {
        "kyma": {"uses-fast"},
        "mandatory-modules": {"uses-fast"},
        "manifest": {manifest.metadata.name},
    }


async def test_module_of_a_kyma_that_is_installed_enqueues_its_watcher_alone(fleet: Fleet) -> None:
    (module,) = fleet.manager.informer(KYMAS).list()[0].status.modules
    manifest = {"apiVersion": "v1", "kind": "Manifest", "metadata": {"name": "uses-fast-api"}}
    modules = [{**msgspec.to_builtins(module), "channel": "fast", "manifest": manifest}]
    await fleet.patch(KYMAS, "uses-fast", {"status": {"modules": modules}}, subresource="status")
    assert fleet.take() == {"watcher": {"uses-fast"}}


@pytest.mark.parametrize(
    ("data", "enqueued"),
    [
        pytest.param(builders.INFRASTRUCTURE_DATA, {"module-config": {"uses-fast/api"}}, id="same kind"),
        pytest.param(OTHER_DATA, {"module-config": {"uses-fast/api"}, "watcher": {"uses-fast"}}, id="another kind"),
    ],
)
async def test_new_version_enqueues_the_watcher_only_where_the_kinds_change(
    fleet: Fleet, data: dict[str, Any], enqueued: dict[str, set[str]]
) -> None:
    await fleet.apply(builders.template("api", "2.0.0", data=data))
    await fleet.empty()
    (module,) = fleet.manager.informer(KYMAS).list()[0].status.modules
    template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": "api-2.0.0", "namespace": KCP}}
    modules = [{**msgspec.to_builtins(module), "channel": "fast", "template": template}]
    await fleet.patch(KYMAS, "uses-fast", {"status": {"modules": modules}}, subresource="status")
    assert fleet.take() == enqueued


@pytest.mark.parametrize(
    ("edit", "enqueued"),
    [
        pytest.param({"data": {"spec": {"size": 2}}}, None, id="same kind"),
        pytest.param({"data": {"kind": "Other"}}, {"uses-fast"}, id="another kind"),
        pytest.param({"enableModuleConfig": False}, {"uses-fast"}, id="not watched"),
    ],
)
async def test_edited_template_enqueues_the_watchers_only_where_its_kinds_change(
    fleet: Fleet, edit: dict[str, Any], enqueued: set[str] | None
) -> None:
    await fleet.apply(builders.template("api", "3.0.0", data=builders.INFRASTRUCTURE_DATA))
    await use_template(fleet, "api-3.0.0")
    await fleet.patch(MODULE_TEMPLATES, "api-3.0.0", {"spec": edit})
    assert fleet.take().get("watcher") == enqueued


async def test_recorded_content_of_a_link_enqueues_the_watchers_that_report_its_kinds(fleet: Fleet) -> None:
    link = "https://example.com/api.yaml"
    await fleet.apply(builders.template("api", "3.0.0", data=None))
    await fleet.patch(MODULE_TEMPLATES, "api-3.0.0", {"spec": {"resources": [{"name": "rawManifest", "link": link}]}})
    await use_template(fleet, "api-3.0.0")
    status = {"pinnedLink": {"url": link, "version": "3.0.0", "digest": f"sha256:{'0' * 64}"}}
    await fleet.patch(MODULE_TEMPLATES, "api-3.0.0", {"status": status}, subresource="status")
    assert fleet.take().get("watcher") == {"uses-fast"}


async def use_template(fleet: Fleet, name: str) -> None:
    """Have the module of `uses-fast` resolved to a template, and forget what that enqueues."""
    (module,) = fleet.manager.informer(KYMAS).list()[0].status.modules
    template = {"apiVersion": "v1", "kind": "ModuleTemplate", "metadata": {"name": name, "namespace": KCP}}
    modules = [{**msgspec.to_builtins(module), "channel": "fast", "template": template}]
    await fleet.patch(KYMAS, "uses-fast", {"status": {"modules": modules}}, subresource="status")
    await fleet.empty()


async def test_labels_of_a_kyma_enqueue_it_alone(fleet: Fleet) -> None:
    await fleet.patch(KYMAS, "uses-fast", {"metadata": {"labels": {names.BETA: "true"}}})
    assert fleet.take() == {name: {"uses-fast"} for name in ("kyma", "catalog", "mandatory-modules", "watcher")}


async def test_times_in_the_status_of_a_kyma_enqueue_nothing(fleet: Fleet) -> None:
    later = {"lastOperation": {"operation": "reconciled", "lastUpdateTime": "2026-11-01T12:00:00Z"}}
    await fleet.patch(KYMAS, "uses-fast", {"status": later}, subresource="status")
    assert fleet.take() == {}


async def test_replaced_cluster_enqueues_all_that_belongs_there(fleet: Fleet) -> None:
    fleet.manager.publish(ClusterReplaced("uses-fast"))
    assert fleet.take() == {
        "kyma": {"uses-fast"},
        "catalog": {"uses-fast"},
        "watcher": {"uses-fast"},
        "module-config": {"uses-fast/api"},
        "manifest": {"uses-fast-api"},
        "sync-resource": {"uses-fast-sync"},
    }
