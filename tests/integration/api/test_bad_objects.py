"""An API server rejects invalid objects with the field."""

from typing import Any, NamedTuple

import pytest

from kube_runtime import Client, Invalid, KubeError
from tests.integration.api.objects import COMPLETE, RESOURCES, in_namespace, read, with_value

LONG = "a" * 33
VERY_LONG = "a" * 254


class Bad(NamedTuple):
    """A good object with one value changed, None for one that is left out, and the field that is then wrong."""

    base: str
    path: str
    value: Any
    field: str


BAD = [
    # Kyma
    Bad("kyma", "spec.channel", None, "spec.channel"),
    Bad("kyma", "spec.channel", "", "spec.channel"),
    Bad("kyma", "spec.channel", "ab", "spec.channel"),
    Bad("kyma", "spec.channel", LONG, "spec.channel"),
    Bad("kyma", "spec.channel", "Regular", "spec.channel"),
    Bad("kyma", "spec.channel", "reg-ular", "spec.channel"),
    Bad("kyma", "spec.channel", "regular\n", "spec.channel"),
    Bad("kyma", "spec.channel", 7, "spec.channel"),
    Bad("kyma", "spec.modules", {}, "spec.modules"),
    Bad("kyma", "spec.modules", "telemetry", "spec.modules"),
    Bad("kyma", "spec.modules.0", "telemetry", "spec.modules[0]"),
    Bad("kyma", "spec.modules.0.name", None, "spec.modules[0].name"),
    Bad("kyma", "spec.modules.0.name", 7, "spec.modules[0].name"),
    Bad("kyma", "spec.modules.0.channel", "x", "spec.modules[0].channel"),
    Bad("kyma", "spec.modules.0.channel", "", "spec.modules[0].channel"),
    Bad("kyma", "spec.modules.0.channel", "fast1", "spec.modules[0].channel"),
    Bad("kyma", "spec.modules.0.controller", 1, "spec.modules[0].controller"),
    Bad("kyma", "spec.modules.0.customResourcePolicy", "Keep", "spec.modules[0].customResourcePolicy"),
    Bad("kyma", "spec.modules.0.customResourcePolicy", "ignore", "spec.modules[0].customResourcePolicy"),
    Bad("kyma", "spec.modules.0.managed", "yes", "spec.modules[0].managed"),
    Bad("kyma", "spec.modules", [{"name": "a"}, {"name": "b"}, {"name": "a"}], "spec.modules[2]"),
    Bad("kyma", "spec.skipMaintenanceWindows", "true", "spec.skipMaintenanceWindows"),
    Bad("kyma", "spec.sync", "on", "spec.sync"),
    Bad("kyma", "spec", None, "spec"),
    Bad("kyma", "spec", [], "spec"),
    Bad("kyma", "status.state", "Fine", "status.state"),
    Bad("kyma", "status.conditions.0.type", None, "status.conditions[0].type"),
    Bad("kyma", "status.conditions.0.type", "not a type", "status.conditions[0].type"),
    Bad("kyma", "status.conditions.0.status", "true", "status.conditions[0].status"),
    Bad("kyma", "status.conditions.0.reason", "", "status.conditions[0].reason"),
    Bad("kyma", "status.conditions.0.reason", "two words", "status.conditions[0].reason"),
    Bad("kyma", "status.conditions.0.message", None, "status.conditions[0].message"),
    Bad("kyma", "status.conditions.0.message", "a" * 32769, "status.conditions[0].message"),
    Bad("kyma", "status.conditions.0.lastTransitionTime", None, "status.conditions[0].lastTransitionTime"),
    Bad("kyma", "status.conditions.0.lastTransitionTime", "yesterday", "status.conditions[0].lastTransitionTime"),
    Bad("kyma", "status.conditions.0.observedGeneration", -1, "status.conditions[0].observedGeneration"),
    Bad("kyma", "status.lastOperation.operation", None, "status.lastOperation.operation"),
    Bad("kyma", "status.lastOperation.lastUpdateTime", "12:00", "status.lastOperation.lastUpdateTime"),
    Bad("kyma", "status.modules.0.name", None, "status.modules[0].name"),
    Bad("kyma", "status.modules.0.state", "ready", "status.modules[0].state"),
    Bad("kyma", "status.modules.0.maintenance", "no", "status.modules[0].maintenance"),
    Bad("kyma", "status.modules.0.template.metadata.generation", "2", "status.modules[0].template.metadata.generation"),
    # ModuleTemplate
    Bad("module-template", "spec.descriptor", None, "spec.descriptor"),
    Bad("module-template", "spec.descriptor", "v2", "spec.descriptor"),
    Bad("module-template", "spec.channel", "ab", "spec.channel"),
    Bad("module-template", "spec.channel", "fast1", "spec.channel"),
    Bad("module-template", "spec.channel", LONG, "spec.channel"),
    Bad("module-template", "spec.data", [], "spec.data"),
    Bad("module-template", "spec.data.kind", None, "spec.data.kind"),
    Bad("module-template", "spec.data.apiVersion", None, "spec.data.apiVersion"),
    Bad("module-template", "spec.moduleName", "x", "spec.moduleName"),
    Bad("module-template", "spec.moduleName", "Telemetry", "spec.moduleName"),
    Bad("module-template", "spec.moduleName", "telemetry-", "spec.moduleName"),
    Bad("module-template", "spec.moduleName", "a" * 65, "spec.moduleName"),
    Bad("module-template", "spec.version", "1.2", "spec.version"),
    Bad("module-template", "spec.version", "v1.2.3", "spec.version"),
    Bad("module-template", "spec.version", "1.02.3", "spec.version"),
    Bad("module-template", "spec.version", "1.2.3+build", "spec.version"),
    Bad("module-template", "spec.version", f"1.2.3-{LONG}", "spec.version"),
    Bad("module-template", "spec.enableModuleConfig", "true", "spec.enableModuleConfig"),
    Bad("module-template", "spec.mandatory", 1, "spec.mandatory"),
    Bad("module-template", "spec.requiresDowntime", "no", "spec.requiresDowntime"),
    Bad("module-template", "spec.info.repository", None, "spec.info.repository"),
    Bad("module-template", "spec.info.documentation", None, "spec.info.documentation"),
    Bad("module-template", "spec.info.icons.0.link", None, "spec.info.icons[0].link"),
    Bad("module-template", "spec.info.icons", [{"name": "a", "link": "x"}] * 2, "spec.info.icons[1]"),
    Bad("module-template", "spec.manager.kind", None, "spec.manager.kind"),
    Bad("module-template", "spec.manager.group", None, "spec.manager.group"),
    Bad("module-template", "spec.manager.name", None, "spec.manager.name"),
    Bad("module-template", "spec.resources.0.link", "not a uri", "spec.resources[0].link"),
    Bad("module-template", "spec.resources.0.name", None, "spec.resources[0].name"),
    Bad("module-template", "spec.customStateCheck.0.mappedState", "Green", "spec.customStateCheck[0].mappedState"),
    Bad("module-template", "spec.customStateCheck.0.jsonPath", None, "spec.customStateCheck[0].jsonPath"),
    Bad("module-template", "spec.customStateCheck.0.value", True, "spec.customStateCheck[0].value"),
    Bad("module-template", "spec.associatedResources.0.version", None, "spec.associatedResources[0].version"),
    # ModuleReleaseMeta
    Bad("module-release-meta", "spec.moduleName", None, "spec.moduleName"),
    Bad("module-release-meta", "spec.channels", None, "spec"),
    Bad("module-release-meta", "spec.mandatory", {"version": "1.0.0"}, "spec"),
    Bad("module-release-meta", "spec.channels.0.version", None, "spec.channels[0].version"),
    Bad("module-release-meta", "spec.channels.0.version", "latest", "spec.channels[0].version"),
    Bad("module-release-meta", "spec.channels.0.channel", "f", "spec.channels[0].channel"),
    Bad("module-release-meta", "spec.channels.1.channel", "fast", "spec.channels[1]"),
    Bad("module-release-meta", "spec.ocmComponentName", "telemetry", "spec.ocmComponentName"),
    Bad("module-release-meta", "spec.ocmComponentName", "kyma-project.io", "spec.ocmComponentName"),
    Bad("module-release-meta", "spec.beta", "yes", "spec.beta"),
    Bad("module-release-meta", "spec.kymaSelector.matchLabels", {"a": 1}, "spec.kymaSelector.matchLabels.a"),
    Bad(
        "module-release-meta",
        "spec.kymaSelector.matchExpressions.0.operator",
        "Equals",
        "spec.kymaSelector.matchExpressions[0].operator",
    ),
    Bad(
        "module-release-meta",
        "spec.kymaSelector.matchExpressions.0.values",
        None,
        "spec.kymaSelector.matchExpressions[0]",
    ),
    Bad(
        "module-release-meta",
        "spec.kymaSelector.matchExpressions.1.values",
        ["a"],
        "spec.kymaSelector.matchExpressions[1]",
    ),
    Bad("mandatory-module-release-meta", "spec.mandatory.version", "", "spec.mandatory.version"),
    Bad("mandatory-module-release-meta", "spec.mandatory.version", "1.0", "spec.mandatory.version"),
    Bad("mandatory-module-release-meta", "spec.mandatory.version", "1.0.0-01", "spec.mandatory.version"),
    # Manifest
    Bad("manifest", "spec.remote", None, "spec.remote"),
    Bad("manifest", "spec.install", None, "spec.install"),
    Bad("manifest", "spec.install.name", None, "spec.install.name"),
    Bad("manifest", "spec.install.source", None, "spec.install.source"),
    Bad("manifest", "spec.install.source", "oci", "spec.install.source"),
    Bad("manifest", "spec.config.type", "tar", "spec.config.type"),
    Bad("manifest", "spec.resource.kind", None, "spec.resource.kind"),
    Bad("manifest", "spec.localizedImages", "a", "spec.localizedImages"),
    Bad("manifest", "spec.customResourcePolicy", "Delete", "spec.customResourcePolicy"),
    Bad("manifest", "status.state", "Done", "status.state"),
    Bad("manifest", "status.synced.0.namespace", None, "status.synced[0].namespace"),
    # Watcher
    Bad("watcher", "spec.field", "metadata", "spec.field"),
    Bad("watcher", "spec.gateway", None, "spec.gateway"),
    Bad("watcher", "spec.gateway.selector", None, "spec.gateway.selector"),
    Bad("watcher", "spec.resourceToWatch.resource", None, "spec.resourceToWatch.resource"),
    Bad("watcher", "spec.serviceInfo.port", "8082", "spec.serviceInfo.port"),
    Bad("watcher", "spec.serviceInfo.port", 0, "spec.serviceInfo.port"),
    Bad("watcher", "spec.serviceInfo.port", 65536, "spec.serviceInfo.port"),
    Bad("watcher", "spec.labelsToWatch", ["a"], "spec.labelsToWatch"),
    Bad("watcher", "status.state", "Up", "status.state"),
    # ModuleConfig and SyncResource
    Bad("module-config", "spec.kyma", None, "spec.kyma"),
    Bad("module-config", "spec.kyma", "", "spec.kyma"),
    Bad("module-config", "spec.module", VERY_LONG, "spec.module"),
    Bad("module-config", "spec.resource", 7, "spec.resource"),
    Bad("module-config", "spec.resourceRef.kind", None, "spec.resourceRef.kind"),
    Bad("sync-resource", "spec.resource", None, "spec.resource"),
    Bad("sync-resource", "spec.resource", ["a"], "spec.resource"),
    Bad("sync-resource", "spec.prune", "false", "spec.prune"),
    Bad("sync-resource", "status.synced.0.name", None, "status.synced[0].name"),
    Bad("sync-resource", "status.synced.0.state", "Gone", "status.synced[0].state"),
    # ModulePolicy
    Bad("module-policy", "spec", None, "spec"),
    Bad("module-policy", "spec.controlPlaneNamespace", "", "spec.controlPlaneNamespace"),
    Bad("module-policy", "spec.controlPlaneNamespace", "Module_A", "spec.controlPlaneNamespace"),
    Bad("module-policy", "spec.controlPlaneNamespace", "a" * 64, "spec.controlPlaneNamespace"),
    Bad("module-policy", "spec.namespaces", "telemetry", "spec.namespaces"),
    Bad("module-policy", "spec.namespaces.0", "", "spec.namespaces[0]"),
    Bad("module-policy", "spec.namespaces.0", VERY_LONG, "spec.namespaces[0]"),
    Bad("module-policy", "spec.clusterResources.0.kind", None, "spec.clusterResources[0].kind"),
    Bad("module-policy", "spec.clusterResources.0.names", None, "spec.clusterResources[0].names"),
    Bad("module-policy", "spec.clusterResources.0.names", [], "spec.clusterResources[0].names"),
    Bad("module-policy", "spec.clusterResources.0.group", VERY_LONG, "spec.clusterResources[0].group"),
    Bad("module-policy", "spec.namespacedResources", [], "spec.namespacedResources"),
    Bad("module-policy", "spec.namespacedResources.allow.0.kind", "", "spec.namespacedResources.allow[0].kind"),
    Bad("module-policy", "spec.namespacedResources.deny.0.kind", None, "spec.namespacedResources.deny[0].kind"),
    Bad("module-policy", "spec.podSecurity", "Baseline", "spec.podSecurity"),
    Bad("module-policy", "spec.podSecurity", "none", "spec.podSecurity"),
    Bad("module-policy", "spec.serviceAccounts", "telemetry", "spec.serviceAccounts"),
    Bad("module-policy", "spec.secrets.0", 7, "spec.secrets[0]"),
]


@pytest.mark.parametrize("bad", BAD, ids=lambda bad: f"{bad.base}:{bad.path}={str(bad.value)[:20]!r}")
async def test_invalid_object_is_rejected_with_its_field(served: Client, namespace: str, bad: Bad) -> None:
    good = in_namespace(read(COMPLETE[bad.base]), namespace)
    document = with_value(good, bad.path, bad.value)

    with pytest.raises(KubeError) as refused:
        await _write(served, good, document, status=bad.path.startswith("status"))

    assert isinstance(refused.value, Invalid)
    assert bad.field in {cause.field for cause in refused.value.causes}


async def _write(client: Client, good: dict[str, Any], bad: dict[str, Any], *, status: bool) -> None:
    """Write the bad object or, where its status is bad, that of the good one."""
    resource, namespace = RESOURCES[good["kind"]], good["metadata"]["namespace"]
    if not status:
        await client.create(resource, bad, namespace, field_manager="test", dry_run=True)
        return
    made = await client.create(resource, good, namespace, field_manager="test")
    whole = made | {"status": bad["status"]}
    await client.replace(
        resource, made["metadata"]["name"], whole, namespace, field_manager="test", subresource="status"
    )


@pytest.mark.parametrize("base", ["module-config", "sync-resource"])
@pytest.mark.parametrize("field", ["kyma", "module"])
async def test_kyma_and_module_are_immutable(served: Client, namespace: str, base: str, field: str) -> None:
    document = in_namespace(read(COMPLETE[base]), namespace)
    resource = RESOURCES[document["kind"]]
    made = await served.create(resource, document, namespace, field_manager="test")
    changed = with_value(made, f"spec.{field}", "another")

    with pytest.raises(Invalid) as refused:
        await served.replace(resource, made["metadata"]["name"], changed, namespace, field_manager="test")

    assert {cause.field for cause in refused.value.causes} == {f"spec.{field}"}


async def test_namespace_of_a_module_can_be_neither_changed_nor_removed_nor_added(
    served: Client, namespace: str
) -> None:
    resource = RESOURCES["ModulePolicy"]
    for name, given, others in (
        ("has-one", {"controlPlaneNamespace": "module-a"}, ("module-b", "kcp-system", None)),
        ("has-none", {}, ("module-a",)),
    ):
        document = in_namespace(read(COMPLETE["module-policy"]), namespace)
        document["metadata"]["name"], document["spec"] = name, given
        made = await served.create(resource, document, namespace, field_manager="test")
        for other in others:
            changed = with_value(made, "spec.controlPlaneNamespace", other)
            with pytest.raises(Invalid) as refused:
                await served.replace(resource, name, changed, namespace, field_manager="test")
            assert {cause.field for cause in refused.value.causes} == {"spec.controlPlaneNamespace"}
        await served.replace(
            resource, name, with_value(made, "spec.podSecurity", "restricted"), namespace, field_manager="test"
        )


async def test_unknown_field_is_rejected_by_strict_validation(served: Client, namespace: str) -> None:
    document = with_value(in_namespace(read(COMPLETE["kyma"]), namespace), "spec.chanel", "fast")

    with pytest.raises(KubeError, match=r"spec\.chanel"):
        await served.create(RESOURCES["Kyma"], document, namespace, field_manager="test", dry_run=True)
