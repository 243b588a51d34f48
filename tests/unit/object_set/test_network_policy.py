"""What a module says about the network reaches nowhere beyond its namespace, unless its policy allows it."""

from typing import Any

import pytest

from kube_runtime import KubernetesObject
from lifecycle_manager.object_set.rules import objections
from lifecycle_manager_api import ClusterResource, KindRule, ModulePolicySpec, NamespacedResources
from lifecycle_manager_api.needed_policy import needed_policy
from lifecycle_manager_api.policy_checks import ModuleRules
from tests.policies import anything

SYSTEM = "kyma-system"
DEFAULTS = ModuleRules("shop")
INGRESS, GATEWAY, ISTIO = "networking.k8s.io/v1", "gateway.networking.k8s.io/v1", "networking.istio.io/v1"
CERT_MANAGER, GARDENER = "cert-manager.io/v1", "cert.gardener.cloud/v1alpha1"
SHOP = "shop.example.com"


def thing(api_version: str, kind: str, namespace: str = "shop", name: str = "x", **content: Any) -> KubernetesObject:
    metadata = {"name": name} | ({"namespace": namespace} if namespace else {}) | content.pop("metadata", {})
    return KubernetesObject.of({"apiVersion": api_version, "kind": kind, "metadata": metadata, **content}, 0)


def denied_by(rules: ModuleRules, *things: KubernetesObject) -> list[str]:
    return [str(each).partition(": spec.")[2] for each in objections(things, rules, default_namespace="default")]


def policy(**fields: Any) -> ModuleRules:
    return ModuleRules("shop", ModulePolicySpec(**fields))


def annotated(key: str) -> KubernetesObject:
    return thing("v1", "Service", metadata={"annotations": {key: SHOP}})


def ingress(key: str, text: str) -> KubernetesObject:
    return thing(INGRESS, "Ingress", metadata={"annotations": {key: text}}, spec={"rules": [{"host": "x"}]})


@pytest.mark.parametrize(
    "served",
    [
        thing(INGRESS, "Ingress", spec={"rules": [{"host": SHOP}]}),
        ingress("nginx.ingress.kubernetes.io/server-alias", f"x, {SHOP}"),
        ingress("haproxy-ingress.github.io/server-alias", SHOP),
        ingress("konghq.com/host-aliases", SHOP),
        thing(GATEWAY, "Gateway", spec={"listeners": [{"hostname": SHOP}]}),
        thing(GATEWAY, "HTTPRoute", spec={"hostnames": [SHOP]}),
        thing(GATEWAY, "TLSRoute", spec={"hostnames": [SHOP]}),
        thing(ISTIO, "Gateway", spec={"servers": [{"hosts": [f"*/{SHOP}"]}]}),
        thing(ISTIO, "VirtualService", spec={"hosts": [SHOP, "x", "x.shop.svc.cluster.local"]}),
        thing(ISTIO, "DestinationRule", spec={"host": SHOP}),
        thing("gateway.kyma-project.io/v2", "APIRule", spec={"hosts": [SHOP]}),
        thing("dns.gardener.cloud/v1alpha1", "DNSEntry", spec={"dnsName": SHOP}),
        thing("cert.gardener.cloud/v1alpha1", "Certificate", spec={"commonName": SHOP}),
        annotated("dns.gardener.cloud/dnsnames"),
        annotated("external-dns.alpha.kubernetes.io/hostname"),
        annotated("external-dns.alpha.kubernetes.io/internal-hostname"),
        annotated("cert.gardener.cloud/commonname"),
        annotated("cert.gardener.cloud/dnsnames"),
        annotated("cert-manager.io/common-name"),
        thing(INGRESS, "Ingress", spec={"rules": [{"host": "x"}], "tls": [{"hosts": [SHOP]}]}),
        thing(CERT_MANAGER, "Certificate", spec={"dnsNames": [SHOP]}),
    ],
    ids=str,
)
def test_host_of_somebody_else_is_not_served(served: KubernetesObject) -> None:
    assert denied_by(DEFAULTS, served) == [f"hosts: it serves host {SHOP}, which is not listed"]
    assert denied_by(policy(hosts=("*.example.com",)), served) == []
    assert denied_by(policy(hosts=("example.com",)), served)


@pytest.mark.parametrize(
    "served",
    [
        thing(INGRESS, "Ingress", spec={"defaultBackend": {"service": {"name": "x"}}}),
        thing(INGRESS, "Ingress", spec={"rules": [{"http": {}}]}),
        ingress("nginx.ingress.kubernetes.io/server-alias", f"~^.*|{SHOP}"),
        ingress("nginx.ingress.kubernetes.io/configuration-snippet", "return 200 $http_authorization;"),
        ingress("nginx.org/server-snippets", "server_name ~^.*;"),
        thing(INGRESS, "Ingress", spec={"rules": [{"host": SHOP}], "defaultBackend": {"service": {"name": "x"}}}),
        thing(GATEWAY, "Gateway", spec={"listeners": [{"hostname": SHOP}, {"port": 80}]}),
        thing(GATEWAY, "HTTPRoute", spec={"hostnames": []}),
        thing(GATEWAY, "TCPRoute", spec={}),
        thing(ISTIO, "VirtualService", spec={"hosts": ["*"]}),
        thing(CERT_MANAGER, "Certificate", spec={"dnsNames": [SHOP], "literalSubject": "CN=other.example.com"}),
        thing(GARDENER, "Certificate", spec={"csr": "LS0tLS1CRUdJTg=="}),
    ],
    ids=str,
)
def test_object_without_a_host_serves_every_host(served: KubernetesObject) -> None:
    assert denied_by(policy(hosts=(SHOP,)), served) == ["hosts: it serves host *, which is not listed"]
    assert denied_by(policy(hosts=("*",)), served) == []


def test_service_of_another_namespace_is_a_host_of_somebody_else() -> None:
    theirs = "api.kyma-system.svc.cluster.local"

    assert denied_by(DEFAULTS, thing(ISTIO, "VirtualService", spec={"hosts": [theirs]})) == [
        f"hosts: it serves host {theirs}, which is not listed"
    ]


@pytest.mark.parametrize(
    ("leads", "address"),
    [
        (thing("v1", "Service", spec={"externalIPs": ["10.0.0.10"]}), "10.0.0.10"),
        (thing("v1", "Service", spec={"type": "ExternalName", "externalName": "api.svc"}), "api.svc"),
        (thing("v1", "Service", spec={"type": "LoadBalancer", "loadBalancerIP": "1.2.3.4"}), "1.2.3.4"),
        (thing("v1", "Endpoints", subsets=[{"addresses": [{"ip": "169.254.169.254"}]}]), "169.254.169.254"),
        (thing("discovery.k8s.io/v1", "EndpointSlice", endpoints=[{"addresses": ["127.0.0.1"]}]), "127.0.0.1"),
        (thing(ISTIO, "WorkloadEntry", spec={"address": "10.0.0.1"}), "10.0.0.1"),
        (thing(ISTIO, "ServiceEntry", spec={"endpoints": [{"address": "10.0.0.1"}]}), "10.0.0.1"),
    ],
    ids=str,
)
def test_nothing_leads_to_addresses_that_no_policy_lists(leads: KubernetesObject, address: str) -> None:
    assert denied_by(DEFAULTS, leads) == [f"addresses: it leads to {address}, which is not listed"]
    assert denied_by(policy(addresses=(address,)), leads) == []


@pytest.mark.parametrize(
    ("group", "kind", "content"),
    [
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration",
            {"webhooks": [{"clientConfig": {"url": "https://evil.example.com:8443/all"}}]},
        ),
        (
            "apiextensions.k8s.io",
            "CustomResourceDefinition",
            {"spec": {"conversion": {"webhook": {"clientConfig": {"url": "https://evil.example.com/"}}}}},
        ),
    ],
)
def test_listed_webhook_sends_objects_to_no_other_host(group: str, kind: str, content: dict[str, Any]) -> None:
    listed = (ClusterResource(group=group, kind=kind, names=("x",)),)
    webhook = thing(f"{group}/v1", kind, "", **content)

    assert denied_by(policy(cluster_resources=listed), webhook) == [
        "addresses: it leads to evil.example.com, which is not listed"
    ]
    assert denied_by(policy(cluster_resources=listed, addresses=("evil.example.com",)), webhook) == []


def test_git_repository_as_a_volume_is_for_privileged_modules_alone() -> None:
    volumes = [{"name": "code", "gitRepo": {"repository": "https://example.com/x"}}]
    pod = thing("v1", "Pod", spec={"volumes": volumes, "containers": []})

    for level in ("baseline", "restricted"):
        assert any("gitRepo" in each for each in denied_by(policy(pod_security=level), pod)), level
    assert denied_by(policy(pod_security="privileged"), pod) == []


def shared(**fields: Any) -> ModuleRules:
    """Return a policy with every kind and name in the namespace that modules share."""
    allow = (KindRule(group="*", kind="*", names=("*",)),)
    return policy(namespaced_resources=NamespacedResources(allow=allow), **fields)


@pytest.mark.parametrize(
    ("api_version", "kind", "field"),
    [
        (INGRESS, "NetworkPolicy", "podSelector"),
        ("policy/v1", "PodDisruptionBudget", "selector"),
        ("security.istio.io/v1", "AuthorizationPolicy", "selector"),
        ("security.istio.io/v1", "PeerAuthentication", "selector"),
    ],
)
def test_pods_of_others_are_not_selected_in_the_namespace_that_modules_share(
    api_version: str, kind: str, field: str
) -> None:
    def selecting(selector: dict[str, Any], namespace: str = SYSTEM) -> KubernetesObject:
        return thing(api_version, kind, namespace, spec={field: selector})

    own = {"kyma-project.io/module": "shop"}

    assert denied_by(shared(), selecting({})) == ["podLabels: it selects everything; no label of it is listed"]
    assert denied_by(shared(), selecting({"matchLabels": {"app": "theirs"}})) == [
        "podLabels: it selects app=theirs; no label of it is listed"
    ]
    several = {"key": "kyma-project.io/module", "operator": "In", "values": ["shop", "theirs"]}
    assert denied_by(shared(), selecting({"matchExpressions": [several]}))
    assert denied_by(shared(), selecting({"matchExpressions": [several | {"values": ["shop"]}]})) == []
    assert denied_by(shared(), selecting({"matchLabels": own | {"app": "x"}})) == []
    assert denied_by(shared(pod_labels=("app=their*",)), selecting({"matchLabels": {"app": "theirs"}})) == []
    assert denied_by(shared(pod_labels=("app=*",)), selecting({}))
    assert denied_by(shared(pod_labels=("*",)), selecting({})) == []
    assert denied_by(DEFAULTS, selecting({}, "shop")) == []


@pytest.mark.parametrize(("exposed", "refused"), [("LoadBalancer", True), ("NodePort", True), ("ClusterIP", False)])
def test_pods_of_others_are_not_exposed_to_the_outside(exposed: str, refused: bool) -> None:
    def service(selector: dict[str, str]) -> KubernetesObject:
        return thing("v1", "Service", SYSTEM, spec={"type": exposed, "selector": selector})

    assert bool(denied_by(shared(), service({"app": "theirs"}))) is refused
    assert denied_by(shared(), service({"kyma-project.io/module": "shop"})) == []


def test_line_without_names_allows_only_objects_named_after_the_module() -> None:
    rules = policy(namespaced_resources=NamespacedResources(allow=(KindRule(kind="ConfigMap"),)))

    def config_map(name: str, namespace: str = SYSTEM) -> KubernetesObject:
        return thing("v1", "ConfigMap", namespace, name)

    for own in (config_map("shop"), config_map("shop-settings"), config_map("any", "shop")):
        assert denied_by(rules, own) == [], own
    for theirs in ("settings", "shopping", "their-shop"):
        (message,) = denied_by(rules, config_map(theirs))
        assert message == "namespacedResources.allow: does not list ConfigMap of the core group with this name"


ATTACKS = (
    thing(INGRESS, "Ingress", SYSTEM, spec={"rules": [{"host": SHOP}]}),
    thing("v1", "Service", SYSTEM, spec={"externalIPs": ["10.0.0.10"]}),
    thing(INGRESS, "NetworkPolicy", SYSTEM, "all", spec={"podSelector": {}}),
    thing("policy/v1", "PodDisruptionBudget", SYSTEM, "some", spec={"selector": {"matchLabels": {"app": "x"}}}),
    thing("v1", "ConfigMap", SYSTEM, "shop-settings"),
)


def test_policy_can_allow_all_of_it_and_the_needed_one_does() -> None:
    needed = needed_policy(ATTACKS, "shop", default_namespace="default")

    assert denied_by(anything("shop"), *ATTACKS) == []
    assert len(denied_by(DEFAULTS, *ATTACKS)) > len(ATTACKS)
    assert denied_by(ModuleRules("shop", needed), *ATTACKS) == []
    assert (needed.hosts, needed.addresses, needed.pod_labels) == ((SHOP,), ("10.0.0.10",), ("*", "app=x"))
    by_kind = {each.kind: each.names for each in needed.namespaced_resources.allow}
    assert (by_kind["NetworkPolicy"], by_kind["ConfigMap"]) == (("all",), ())
