"""What a user of telemetry does with its real operator: pipelines from its samples, mistakes, and what it leaves."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kube_runtime import Client, KubeError, Resource, load_documents
from lifecycle_manager_api import names
from tests.kinds import (
    CLUSTER_ROLES,
    CONFIG_MAPS,
    CRDS,
    DEPLOYMENTS,
    MUTATING_WEBHOOKS,
    NAMESPACES,
    SECRETS,
    SERVICES,
    WEBHOOKS,
)

GROUP = "telemetry.kyma-project.io"
Document = dict[str, Any]


def _pipelines(kind: str, version: str = "v1beta1") -> Resource[Document]:
    return Resource.dynamic(GROUP, version, kind, f"{kind.lower()}s", namespaced=False)


PIPELINES = {kind: _pipelines(kind) for kind in ("LogPipeline", "MetricPipeline", "TracePipeline")}
OLD_LOG_PIPELINES = _pipelines("LogPipeline", "v1alpha1")
DAEMON_SETS: Resource[Document] = Resource.dynamic("apps", "v1", "DaemonSet", "daemonsets", namespaced=True)
KINDS = (CLUSTER_ROLES, CONFIG_MAPS, CRDS, DAEMON_SETS, DEPLOYMENTS, MUTATING_WEBHOOKS, SECRETS, SERVICES, WEBHOOKS)
GATEWAYS = ("telemetry-otlp", "telemetry-metric-agent", "telemetry-log-agent", "telemetry-self-monitor")
"""How the names of what the operator runs for pipelines begin."""
SAMPLES = ("tracepipeline", "metricpipeline", "logpipeline_otel_input_otlp")
OTHERS: Mapping[str, Resource[Document]] = {"Namespace": NAMESPACES, "Secret": SECRETS}


async def create_samples(skr: Client, source: Path) -> dict[str, Resource[Document]]:
    """Create the pipelines of the module's samples as the user, with what they refer to; return them by name."""
    created = {}
    for sample in SAMPLES:
        text = (source / "samples" / f"telemetry_v1beta1_{sample}.yaml").read_text()
        for each in load_documents(text):
            resource = {**OTHERS, **PIPELINES}.get(each["kind"])
            if resource is None:  # the sample's own sink and source, whose images can't be pulled here
                continue
            name, namespace = each["metadata"]["name"], each["metadata"].get("namespace")
            await skr.apply(resource, name, dict(each), namespace, field_manager="user")
            if each["kind"] in PIPELINES:
                created[f"{each['kind']} {name}"] = resource
    return created


async def delete_samples(skr: Client, created: Mapping[str, Resource[Document]]) -> None:
    for each, resource in created.items():
        await skr.delete(resource, each.partition(" ")[2])


async def configured(skr: Client, created: Mapping[str, Resource[Document]]) -> bool:
    """Tell whether the operator has answered each pipeline that it is configured."""
    found = [await skr.get(resource, each.partition(" ")[2]) for each, resource in created.items()]
    conditions = [each.get("status", {}).get("conditions", ()) for each in found]
    return all(
        any((it["type"], it["status"]) == ("ConfigurationGenerated", "True") for it in each) for each in conditions
    )


async def refusal(skr: Client) -> str:
    """Return the operator's answer to a transformation that is none; empty while its webhook can't be called."""
    output = {"otlp": {"endpoint": {"value": "http://sink.example:4317"}}}
    broken = {"spec": {"output": output, "transform": [{"statements": ["no statement"]}]}}
    try:
        await skr.apply(PIPELINES["TracePipeline"], "broken", broken, field_manager="user")
    except KubeError as error:
        return str(error) if "OTTL" in str(error) else ""
    await skr.delete(PIPELINES["TracePipeline"], "broken")
    return ""


async def certificates(skr: Client) -> dict[str, tuple[int, list[str]]]:
    """Return generation and CA of the objects of the module into which the operator writes its own."""
    found = {}
    for resource, name in ((WEBHOOKS, "validating"), (MUTATING_WEBHOOKS, "mutating")):
        each = await skr.get(resource, f"telemetry-{name}-webhook.kyma-project.io")
        bundles = [webhook["clientConfig"].get("caBundle", "") for webhook in each["webhooks"]]
        found[name] = (each["metadata"]["generation"], bundles)
    for plural in ("logpipelines", "metricpipelines"):
        each = await skr.get(CRDS, f"{plural}.{GROUP}")
        conversion = each["spec"]["conversion"].get("webhook", {}).get("clientConfig", {})
        found[plural] = (each["metadata"]["generation"], [conversion.get("caBundle", "")])
    return found


async def has_certificates(skr: Client) -> bool:
    """Tell whether the operator has written all of them."""
    return all(all(bundles) for _, bundles in (await certificates(skr)).values())


async def left_of_telemetry(skr: Client) -> set[tuple[str, str]]:
    """Return kind and name of each object that is the module's, or of its operator, but for what has an owner."""
    found = set()
    for resource in KINDS:
        listed = await skr.list(resource, names.SKR_NAMESPACE if resource.namespaced else None)
        alone = (it["metadata"] for it in listed.items if not it["metadata"].get("ownerReferences"))
        found |= {(resource.kind, each["name"]) for each in alone}
    return {each for each in found if "telemetr" in each[1]}
