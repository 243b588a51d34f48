"""The charts without a cluster: they lint, refuse invalid values, and agree with the code."""

import json
import re
import shlex
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest

from charts.generate import CHARTS, PROJECT_CHART, generated_texts, options_schema, project_chart_texts
from kube_runtime import dump_yaml, load_yaml, parse_objects
from kyma_certs import KeyPair
from kyma_local.helm import HelmFailed
from kyma_module_manager.project.generation import generate_project
from kyma_module_manager.project.names import ModuleNames
from kyma_module_manager.rights import lease_namespace_of, roles_of
from lifecycle_manager.admission import webhook_configuration
from lifecycle_manager.catalog_sync import CatalogSettings
from lifecycle_manager.command_line import settings_in
from lifecycle_manager.kyma import KymaSettings
from lifecycle_manager.module_installation import ManifestSettings
from lifecycle_manager.options.endpoints import EndpointSettings
from lifecycle_manager.options.process import ProcessSettings
from lifecycle_manager.options.watcher import WatcherDeployment, WatcherSettings
from lifecycle_manager.replicas import ReplicaSettings
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr_webhook.documents import ModuleRule, webhook_document, workload_documents
from lifecycle_manager.watcher_certificates.ca_store import CAStore
from lifecycle_manager_api import names
from lifecycle_manager_api.crds import all_crds
from lifecycle_manager_api.module_authorization import MODULE_AUTHORIZATION, module_authorization_as_yaml
from skr_watcher.metrics import Metrics
from tests.integration.charts.helm import (
    LIFECYCLE_MANAGER,
    MODULE_MANAGER,
    NAMESPACES,
    SKR_WATCHER,
    WAYS,
    Helm,
    expressions_in,
    of_kind,
    values,
)
from tests.node_agent.environment import expanded
from tools.release.charts import package
from tools.release.version import current

EVERYTHING = WAYS["lifecycle-manager-with-everything"][1]
INSTALL = Path("docs/install.md").read_text()
DIGEST = f"sha256:{'1' * 64}"
MANAGER = ("--set", "manager=a.b:c,module=telemetry,namespace=kcp-system")


@pytest.mark.parametrize("way", WAYS)
async def test_every_chart_lints_strictly(helm: Helm, way: str) -> None:
    chart, arguments = WAYS[way]
    assert "0 chart(s) failed" in await helm.run("lint", "--strict", str(chart), "-n", NAMESPACES[chart], *arguments)


@pytest.mark.parametrize(
    ("chart", "arguments", "complaint"),
    [
        (LIFECYCLE_MANAGER, values(replicas=-1), "replicas"),
        (LIFECYCLE_MANAGER, values(replica=1), "replica"),
        (MODULE_MANAGER, (*MANAGER, *values(module="x" * 42)), "module"),
        (LIFECYCLE_MANAGER, ("--set", "image=lifecycle-manager:1"), "image"),
        (LIFECYCLE_MANAGER, values(image__repository="lifecycle-manager:1"), "repository"),
        (LIFECYCLE_MANAGER, values(image__digest="sha256:1"), "digest"),
        (LIFECYCLE_MANAGER, values(image__pullPolicy="Sometimes"), "pullPolicy"),
        (LIFECYCLE_MANAGER, values(events__address="https://events.example.com"), "address"),
        (LIFECYCLE_MANAGER, values(events__address="events.example.com"), "address"),
        (LIFECYCLE_MANAGER, values(events__service__port=70000), "port"),
        (LIFECYCLE_MANAGER, values(events__ingress__enabled=True), "events.address"),
        (
            LIFECYCLE_MANAGER,
            values(events__gatewayApi__enabled=True, events__address="a.example.com:443"),
            "parentRefs",
        ),
        (LIFECYCLE_MANAGER, values(crds__keep="maybe"), "keep"),
        (LIFECYCLE_MANAGER, values(logLevel="info"), "logLevel"),
        (LIFECYCLE_MANAGER, ("--set", "options.max-concurent-kyma-reconciles=3"), "options"),
        (LIFECYCLE_MANAGER, ("--set", "options.metrics-bind-address=:1"), "options"),
        (LIFECYCLE_MANAGER, ("--set", "options.replica-name=one"), "options"),
        (LIFECYCLE_MANAGER, ("--set", "options.kyma-requeue-success-interval=60"), "kyma-requeue-success-interval"),
        (LIFECYCLE_MANAGER, ("--set", "options.watcher-silence=1 minute"), "watcher-silence"),
        (LIFECYCLE_MANAGER, ("--set", "options.max-concurrent-reconciles=0"), "max-concurrent-reconciles"),
        (LIFECYCLE_MANAGER, ("--set", "options.trace-sampling-ratio=2"), "trace-sampling-ratio"),
        (LIFECYCLE_MANAGER, ("--set-string", "options.fips-only=yes"), "fips-only"),
        (LIFECYCLE_MANAGER, ("--set", "options.default-module-policy=none"), "default-module-policy"),
        (LIFECYCLE_MANAGER, ("--set", "resources.limits.memory=1 GB"), "memory"),
        (LIFECYCLE_MANAGER, ("--set", "watcher.memoryLimit=much"), "memoryLimit"),
        (LIFECYCLE_MANAGER, ("--set", "metrics.prometheusRule.runbooks=docs/runbooks"), "runbooks"),
        (LIFECYCLE_MANAGER, ("--set", "options.leader-elect=false"), "leader-elect"),
        (LIFECYCLE_MANAGER, values(terminationGracePeriodSeconds=5), "terminationGracePeriodSeconds"),
        (LIFECYCLE_MANAGER, ("--namespace", "default"), "kcp-system"),
        (LIFECYCLE_MANAGER, values(certManager__enabled=True, certManager__duration="2160h"), "certManager.duration"),
        (LIFECYCLE_MANAGER, values(kubeconfig__existingSecret="kcp"), "webhooks.enabled=false"),
        (
            LIFECYCLE_MANAGER,
            values(kubeconfig__existingSecret="kcp", webhooks__enabled=False, certManager__enabled=True),
            "certManager.enabled=false",
        ),
        (LIFECYCLE_MANAGER, values(events__address="[fd00::1]:443", events__ingress__enabled=True), "DNS name"),
        (LIFECYCLE_MANAGER, values(events__address="10.0.0.1:443", events__istio__enabled=True), "DNS name"),
        (LIFECYCLE_MANAGER, values(networkPolicy__apiServerPorts="null"), "networkPolicy.apiServerPorts is needed"),
        (MODULE_MANAGER, values(module="telemetry"), "manager is needed"),
        (MODULE_MANAGER, values(manager="a.b:c", rbac__create=False), "module is needed"),
        (LIFECYCLE_MANAGER, values(serviceAccount__create=False), "serviceAccount.name is needed"),
        (MODULE_MANAGER, (*MANAGER, *values(serviceAccount__create=False)), "serviceAccount.name is needed"),
        (SKR_WATCHER, values(caBundle="pem", kcpAddress="events.example.com:0443"), "kcpAddress"),
        (MODULE_MANAGER, (*MANAGER, *values(networkPolicy__apiServerPorts="null")), "apiServerPorts is needed"),
        (MODULE_MANAGER, values(manager="a.b:c"), "module is needed"),
        (MODULE_MANAGER, values(manager="not a manager"), "manager"),
        (MODULE_MANAGER, (*MANAGER, *values(leaderElection__enabled=False)), "leaderElection"),
        (MODULE_MANAGER, (*MANAGER, *values(concurrency=0)), "concurrency"),
        (SKR_WATCHER, (), "caBundle is needed"),
        (SKR_WATCHER, values(webhook__enabled=False), "kcpAddress is needed"),
        (SKR_WATCHER, values(caBundle="pem", kcpAddress="events.example.com"), "kcpAddress"),
        (SKR_WATCHER, values(caBundle="pem", tls__existingSecret=False), "tls.certificate"),
        (SKR_WATCHER, values(caBundle="pem", image__pullPolicy="Always"), "pullPolicy"),
        (SKR_WATCHER, (*values(webhook__enabled=False), "--namespace", "default"), "kyma-system"),
    ],
)
async def test_invalid_values_are_refused(helm: Helm, chart: Path, arguments: tuple[str, ...], complaint: str) -> None:
    with pytest.raises(HelmFailed, match=re.escape(complaint)):
        await helm.render(chart, *arguments)


async def test_generated_files_are_up_to_date() -> None:
    for path, text in generated_texts().items():
        assert (CHARTS / path).read_text() == text, f"{path} is out of date: run `make charts` and commit the result"
    schema = msgspec.json.decode((LIFECYCLE_MANAGER / "values.schema.json").read_bytes())
    assert schema["properties"]["options"] == options_schema(), "run `make charts` and commit what it writes"
    generated = {str(file.relative_to(PROJECT_CHART)): file.read_text() for file in PROJECT_CHART.rglob("*.template")}
    assert generated == project_chart_texts(), "run `make charts` and commit what it writes"


@pytest.mark.parametrize("chart", NAMESPACES, ids=lambda chart: chart.name)
async def test_every_value_is_in_the_schema_and_every_property_has_a_default(chart: Path) -> None:
    schema = msgspec.json.decode((chart / "values.schema.json").read_bytes())
    defaults = load_yaml((chart / "values.yaml").read_text())
    assert dict(_one_sided(schema, defaults, schema["definitions"])) == {}


@pytest.mark.parametrize("chart", NAMESPACES, ids=lambda chart: chart.name)
async def test_readme_of_a_chart_says_what_it_is_and_lists_its_values(helm: Helm, chart: Path) -> None:
    readme = await helm.run("show", "readme", str(chart))
    assert load_yaml((chart / "Chart.yaml").read_text())["description"] in readme
    assert all(f"| `{value}` |" in readme for value in load_yaml((chart / "values.yaml").read_text()))


async def test_services_of_a_release_with_a_long_name_have_valid_names(helm: Helm) -> None:
    longest = "r" * 53
    for chart, arguments in ((LIFECYCLE_MANAGER, ()), (MODULE_MANAGER, MANAGER)):
        services = of_kind(await helm.render(chart, *arguments, release=longest), "Service")
        assert services
        assert max(map(len, services)) <= 63
        assert not [name for name in services if "--" in name]


@pytest.mark.parametrize("release", ["1e3"])
@pytest.mark.parametrize("way", WAYS)
async def test_labels_are_texts_with_any_name_of_a_release(helm: Helm, way: str, release: str) -> None:
    chart, arguments = WAYS[way]
    for each in await helm.render(chart, *arguments, release=release):
        assert all(isinstance(text, str) for text in each["metadata"].get("labels", {}).values())
        assert all(isinstance(text, str) for text in _labels_of_pods(each.get("spec")))


async def test_names_of_existing_objects_are_texts(helm: Helm) -> None:
    names_ = ("kubeconfig.existingSecret", "maintenancePolicy.existingConfigMap", "priorityClassName")
    given = [word for name in names_ for word in ("--set-string", f"{name}=2024")]
    pod = _pod(await helm.render(LIFECYCLE_MANAGER, *given, *values(webhooks__enabled=False)))
    volumes = {each["name"]: each for each in pod["volumes"]}
    assert pod["priorityClassName"] == "2024"
    assert volumes["kubeconfig"]["secret"]["secretName"] == "2024"
    assert volumes["maintenance"]["configMap"]["name"] == "2024"


async def test_options_that_are_all_commented_out_are_none(helm: Helm, tmp_path: Path) -> None:
    (tmp_path / "values.yaml").write_text("options:\n#  fips-only: true\n")
    rendered = await helm.render(LIFECYCLE_MANAGER, "-f", str(tmp_path / "values.yaml"))
    assert rendered == await helm.render(LIFECYCLE_MANAGER)


async def test_leases_in_the_namespace_of_the_release_leave_it_as_it_is(helm: Helm) -> None:
    """Helm installs no namespace that exists."""
    rendered = await helm.render(LIFECYCLE_MANAGER, "--set", "options.leader-election-namespace=kcp-system")
    assert not of_kind(rendered, "Namespace")


async def test_interval_of_prometheus_may_be_its_default(helm: Helm) -> None:
    for chart, arguments in ((LIFECYCLE_MANAGER, ()), (MODULE_MANAGER, MANAGER)):
        given = values(metrics__serviceMonitor__enabled=True, metrics__serviceMonitor__interval="")
        (monitor,) = of_kind(await helm.render(chart, *arguments, *given), "ServiceMonitor").values()
        assert [*monitor["spec"]["endpoints"][0]] == ["port"]


@pytest.mark.parametrize("way", WAYS)
async def test_another_chart_may_depend_on_it_by_the_usual_condition(helm: Helm, way: str) -> None:
    chart, arguments = WAYS[way]
    assert await helm.render(chart, *arguments, *values(enabled=True))


async def test_module_crs_may_have_any_plural(helm: Helm) -> None:
    given = ("--set", "modules[0].group=hydra.ory.sh,modules[0].plural=oauth2clients/status")
    rendered = await helm.render(SKR_WATCHER, *values(caBundle="pem", kcpAddress="a:1"), *given)
    (webhooks,) = of_kind(rendered, "ValidatingWebhookConfiguration").values()
    assert webhooks["webhooks"][-1]["rules"][0]["resources"] == ["oauth2clients/status"]


@pytest.mark.parametrize("keep", [True, False])
async def test_crds_are_those_of_the_api_and_are_kept_by_default(helm: Helm, keep: bool) -> None:
    rendered = of_kind(await helm.render(LIFECYCLE_MANAGER, *values(crds__keep=keep)), "CustomResourceDefinition")
    policies = {crd["metadata"].pop("annotations", {}).get("helm.sh/resource-policy") for crd in rendered.values()}
    for crd in rendered.values():
        del crd["metadata"]["labels"]
    assert rendered == {crd["metadata"]["name"]: crd for crd in all_crds()}
    assert policies == ({"keep"} if keep else {None})


async def test_crds_are_not_installed_on_request(helm: Helm) -> None:
    objects = await helm.render(LIFECYCLE_MANAGER, *values(crds__install=False))
    assert not of_kind(objects, "CustomResourceDefinition")


async def test_roles_are_those_of_the_programs(helm: Helm) -> None:
    wanted = parse_objects(files("lifecycle_manager.rbac").joinpath("kcp.yaml").read_text())
    rendered = await helm.render(LIFECYCLE_MANAGER)
    for each in wanted:
        kind, name = each.document["kind"], each.document["metadata"]["name"]
        role, binding = of_kind(rendered, kind)[name], of_kind(rendered, f"{kind}Binding")[name]
        assert role["rules"] == each.document["rules"]
        assert role["metadata"].get("namespace") == each.document["metadata"].get("namespace")
        assert binding["metadata"].get("namespace") == each.document["metadata"].get("namespace")
        assert binding["roleRef"]["name"] == name
        assert [subject["name"] for subject in binding["subjects"]] == ["lifecycle-manager"]
    (beside, for_leases) = of_kind(await helm.render(MODULE_MANAGER, *MANAGER), "Role").values()
    for role, source in zip((beside, for_leases), roles_of("telemetry"), strict=True):
        assert role["rules"] == source["rules"]
        assert role["metadata"]["namespace"] == source["metadata"]["namespace"]


async def test_module_has_a_namespace_of_its_own_by_default(helm: Helm) -> None:
    """With the Role of its manager there alone, and the rights of Lifecycle Manager."""
    arguments = (*MANAGER, *values(namespace="", leaderElection__enabled=False, replicas=1))
    rendered = await helm.render(MODULE_MANAGER, *arguments)
    (created,) = of_kind(rendered, "Namespace").values()
    assert created["metadata"]["name"] == "module-telemetry"
    assert created["metadata"]["annotations"] == {"helm.sh/resource-policy": "keep"}
    roles, bindings = of_kind(rendered, "Role").values(), of_kind(rendered, "RoleBinding").values()
    assert [each["metadata"]["namespace"] for each in (*roles, *bindings)] == ["module-telemetry"] * 3
    (rights,) = parse_objects(files("lifecycle_manager.rbac").joinpath("kcp-modules.yaml").read_text())
    subjects = {each["roleRef"]["name"]: each["subjects"][0] for each in bindings}
    installed = of_kind(await helm.render(LIFECYCLE_MANAGER), "ClusterRole")[rights.name]
    assert installed["rules"] == rights.document["rules"]
    assert subjects[rights.name] == {"kind": "ServiceAccount", "name": "lifecycle-manager", "namespace": "kcp-system"}
    (deployment,) = of_kind(rendered, "Deployment").values()
    assert "--namespace=module-telemetry" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]
    existing = await helm.render(MODULE_MANAGER, *arguments, *values(createNamespace=False))
    assert not of_kind(existing, "Namespace")


async def test_roles_for_people_are_those_of_the_commands_and_nobody_has_them_yet(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER)
    wanted = parse_objects(files("kyma_fleet").joinpath("rbac.yaml").read_text())
    assert [each.name for each in wanted] == ["klm-viewer", "klm-operator", "klm-skr-access", "klm-registrar"]
    for each in wanted:
        assert of_kind(rendered, "ClusterRole")[each.name]["rules"] == each.document["rules"]
        assert each.name not in of_kind(rendered, "ClusterRoleBinding")


async def test_namespaces_of_the_leases_are_those_of_the_programs(helm: Helm) -> None:
    """By default, and as configured."""
    ways = (
        (LIFECYCLE_MANAGER, (), "kcp-system-leases"),
        (LIFECYCLE_MANAGER, ("--set", "options.leader-election-namespace=elsewhere"), "elsewhere"),
        (MODULE_MANAGER, MANAGER, lease_namespace_of("telemetry")),
        (MODULE_MANAGER, (*MANAGER, *values(leaderElection__namespace="elsewhere")), "elsewhere"),
    )
    for chart, arguments, namespace in ways:
        rendered = await helm.render(chart, *arguments)
        roles = {name: each for name, each in of_kind(rendered, "Role").items() if name.endswith("-leases")}
        bindings = {name: each for name, each in of_kind(rendered, "RoleBinding").items() if name in roles}
        assert set(of_kind(rendered, "Namespace")) == {namespace}
        assert [each["metadata"]["namespace"] for each in (*roles.values(), *bindings.values())] == [namespace] * 2
    (deployment,) = of_kind(rendered, "Deployment").values()
    assert "--leader-election-namespace=elsewhere" in deployment["spec"]["template"]["spec"]["containers"][0]["args"]


async def test_lifecycle_manager_may_create_and_change_its_own_webhook_configuration_alone(helm: Helm) -> None:
    name = webhook_configuration("", "", b"")["metadata"]["name"]
    rendered = await helm.render(LIFECYCLE_MANAGER)
    assert set(of_kind(rendered, "ValidatingWebhookConfiguration")) == {name}
    (rule,) = of_kind(rendered, "ClusterRole")["lifecycle-manager-webhooks"]["rules"]
    assert rule["resources"] == ["validatingwebhookconfigurations"]
    assert (rule["resourceNames"], rule["verbs"]) == ([name], ["create", "get", "patch"])
    rendered = await helm.render(LIFECYCLE_MANAGER, *values(webhooks__enabled=False))
    assert "lifecycle-manager-webhooks" not in of_kind(rendered, "ClusterRole")
    rules = of_kind(rendered, "ClusterRole")["lifecycle-manager"]["rules"]
    assert "create" not in {verb for rule in rules for verb in rule["verbs"]}


async def test_admission_policy_is_the_one_that_lifecycle_manager_checks(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER)
    for each in parse_objects(module_authorization_as_yaml()):
        found = of_kind(rendered, each.kind)[MODULE_AUTHORIZATION]
        del found["metadata"]["labels"]
        assert found == each.document


async def test_rights_for_an_option_are_granted_only_with_it(helm: Helm) -> None:
    text = files("lifecycle_manager.rbac").joinpath("kcp-cert-manager.yaml").read_text()
    (wanted,) = (each.document for each in parse_objects(text))
    name = wanted["metadata"]["name"]
    assert name not in of_kind(await helm.render(LIFECYCLE_MANAGER), "Role")
    rendered = await helm.render(LIFECYCLE_MANAGER, "--set", "options.cert-management=cert-manager.io/v1")
    assert of_kind(rendered, "Role")[name]["rules"] == wanted["rules"]
    assert of_kind(rendered, "RoleBinding")[name]["roleRef"]["name"] == name


@pytest.mark.parametrize(
    ("file", "options", "namespaces"),
    [
        (
            "kcp-gardener",
            {"cert-management": "cert.gardener.cloud/v1alpha1", "self-signed-cert-issuer-namespace": "issuers"},
            ("kcp-system", "issuers"),
        ),
        ("kcp-gardener", {"cert-management": "cert.gardener.cloud/v1alpha1"}, ("kcp-system", "kcp-system")),
        ("kcp-istio", {"watcher-virtual-services": "true"}, ("kcp-system", "kcp-system", "istio-system")),
        (
            "kcp-istio",
            {"watcher-virtual-services": "true", "istio-namespace": "mesh", "istio-gateway-namespace": "gateways"},
            ("kcp-system", "gateways", "mesh"),
        ),
    ],
)
async def test_rights_for_another_program_are_in_its_namespaces(
    helm: Helm, file: str, options: dict[str, str], namespaces: tuple[str, ...]
) -> None:
    text = files("lifecycle_manager.rbac").joinpath(f"{file}.yaml").read_text()
    wanted = [each.document for each in parse_objects(text)]
    without = of_kind(await helm.render(LIFECYCLE_MANAGER), "Role")
    given = (part for name, value in options.items() for part in ("--set", f"options.{name}={value}"))
    rendered = await helm.render(LIFECYCLE_MANAGER, *given)
    for role, namespace in zip(wanted, namespaces, strict=True):
        name = role["metadata"]["name"]
        assert name not in without
        found, binding = of_kind(rendered, "Role")[name], of_kind(rendered, "RoleBinding")[name]
        assert (found["metadata"]["namespace"], found["rules"]) == (namespace, role["rules"])
        assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == (namespace, name)


async def test_former_ca_is_that_of_istio_where_gardener_has_the_issuer(helm: Helm) -> None:
    option = {"cert-management": "cert.gardener.cloud/v1alpha1", "self-signed-cert-issuer-namespace": "issuers"}
    given = (part for name, value in option.items() for part in ("--set", f"options.{name}={value}"))
    role = of_kind(await helm.render(LIFECYCLE_MANAGER, *given), "Role")["lifecycle-manager-takeover"]
    assert role["metadata"]["namespace"] == "istio-system"


async def test_rights_for_the_takeover_are_in_the_namespace_of_the_former_ca(helm: Helm) -> None:
    text = files("kyma_takeover").joinpath("rbac.yaml").read_text()
    (wanted,) = (each.document for each in parse_objects(text))
    name = wanted["metadata"]["name"]
    assert name not in of_kind(await helm.render(LIFECYCLE_MANAGER), "Role")
    option = "options.self-signed-cert-issuer-namespace=certificates"
    rendered = await helm.render(LIFECYCLE_MANAGER, "--set", option)
    role, binding = of_kind(rendered, "Role")[name], of_kind(rendered, "RoleBinding")[name]
    assert (role["metadata"]["namespace"], role["rules"]) == ("certificates", wanted["rules"])
    assert (binding["metadata"]["namespace"], binding["roleRef"]["name"]) == ("certificates", name)


async def test_chart_of_a_new_module_is_the_one_for_module_managers(helm: Helm, tmp_path: Path) -> None:
    generate_project(ModuleNames.of("tea-room"), tmp_path / "tea-room")
    chart = tmp_path / "tea-room" / "chart"
    assert "0 chart(s) failed" in await helm.run("lint", "--strict", str(chart), "-n", "kcp-system")
    made = await helm.run("template", "tea-room-manager", str(chart), "-n", "kcp-system")
    ours = await helm.render(
        MODULE_MANAGER,
        *values(
            manager="tea_room:objects",
            module="tea-room",
            namespace="module-tea-room",
            image__repository="tea-room-manager",
            nameOverride="tea-room-manager",
        ),
        release="tea-room-manager",
    )
    named = {"helm.sh/chart: module-manager-": "helm.sh/chart: tea-room-manager-"}
    assert [dict(each.document) for each in parse_objects(made)] == _renamed(ours, named)


async def test_chart_of_the_watcher_has_the_objects_that_lifecycle_manager_installs(helm: Helm) -> None:
    trust = b"trust\n"
    settings = WatcherDeployment(
        image="registry.example.com/skr-watcher:v7",
        kcp_address="kcp.example.com:443",
        memory_limit="64Mi",
        cpu_limit="0.5",
    )
    pair = KeyPair(certificate_pem=b"certificate\n", key_pem=b"key\n")
    rules = [ModuleRule("b.example.com", "things"), ModuleRule("c.example.com", "others/status")]
    for replicas, modules in ((1, []), (2, rules[:1]), (1, rules)):
        given = [
            *(("--set", f"modules[{i}].{field}={value}") for i, rule in enumerate(modules)
              for field, value in (("group", rule.group), ("plural", rule.plural))),
        ]  # fmt: skip
        rendered = await helm.render(
            SKR_WATCHER,
            *values(
                replicas=replicas, fipsOnly=replicas == 2,
                image__registry="registry.example.com", image__tag="v7", kcpAddress=settings.kcp_address,
                resources__limits__memory="64Mi", tls__existingSecret=False, tls__certificate="certificate\n",
                tls__key="key\n", tls__ca="trust\n", caBundle="trust\n",
            ),
            "--set-string", "resources.limits.cpu=0.5",
            *(word for words in given for word in words),
        )  # fmt: skip
        expected = WatcherSettings(
            deployment=settings.model_copy(update={"replicas": replicas, "fips_only": replicas == 2})
        )
        installed = [*workload_documents(expected, pair, trust), webhook_document((), modules, trust)]
        assert _by_identity(rendered) == _by_identity(installed)


@pytest.fixture
def released(helm: Helm, tmp_path: Path) -> Path:
    package(tmp_path, dict.fromkeys(("lifecycle-manager", "skr-watcher"), DIGEST), registry="ghcr.io/somebody")
    return tmp_path


@pytest.mark.parametrize("chart", NAMESPACES, ids=lambda chart: chart.name)
async def test_released_charts_refer_to_the_images_of_the_same_release(helm: Helm, chart: Path, released: Path) -> None:
    required = {MODULE_MANAGER: MANAGER, SKR_WATCHER: values(caBundle="pem", kcpAddress="a:1")}.get(chart, ())
    archive = released / f"{chart.name}-{current()}.tgz"
    text = await helm.run("template", "x", str(archive), "-n", NAMESPACES[chart], *required)
    image = _container([dict(each.document) for each in parse_objects(text)])["image"]
    which = f":{current()}" if chart == MODULE_MANAGER else f"@{DIGEST}"  # a module team sets an image of its own
    assert image == f"ghcr.io/somebody/{chart.name}{which}"


@pytest.mark.parametrize("way", WAYS)
async def test_images_are_pulled_with_the_given_secrets(helm: Helm, way: str) -> None:
    chart, arguments = WAYS[way]
    rendered = await helm.render(chart, *arguments, "--set", "imagePullSecrets[0].name=of-the-registry")
    assert _pod(rendered)["imagePullSecrets"] == [{"name": "of-the-registry"}]


async def test_program_reads_every_option_of_the_chart(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER, *EVERYTHING)
    settings = _settings(rendered)
    process, endpoint, replica = settings[ProcessSettings], settings[EndpointSettings], settings[ReplicaSettings]
    assert endpoint.event_names.address == "events.kcp.example.com:443"
    assert (replica.name, replica.address) == ("lifecycle-manager-0", "10.0.0.1:8443")
    assert endpoint.event_names.additional == ("events.kcp.internal",)
    assert settings[KymaSettings].concurrency == 100
    assert process.qps == 4_000_000
    assert process.trace_sampling_ratio == 0.5
    assert settings[KymaSettings].interval_seconds == 60
    assert settings[CatalogSettings].purge.enabled
    assert settings[ManifestSettings].restricted
    assert endpoint.enable_webhooks
    assert endpoint.webhook_service in of_kind(rendered, "Service")
    assert process.log_level == "DEBUG"
    elsewhere = values(kubeconfig__existingSecret="kcp-access", webhooks__enabled=False)
    kubeconfig = _settings(await helm.render(LIFECYCLE_MANAGER, *elsewhere))[ProcessSettings].kubeconfig
    assert kubeconfig == Path("/etc/lifecycle-manager/kubeconfig/kubeconfig")


async def test_single_replica_without_leases_ends_before_the_next_one_starts(helm: Helm) -> None:
    for arguments, wanted in (((), "RollingUpdate"), (("--set", "replicas=1,options.leader-elect=false"), "Recreate")):
        rendered = await helm.render(LIFECYCLE_MANAGER, *arguments)
        assert _deployment(rendered)["strategy"]["type"] == wanted
        assert _settings(rendered)[ReplicaSettings].enabled == (wanted == "RollingUpdate")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ((), "share the Kymas, here 2"),
        (("--set", "replicas=1,options.leader-elect=false"), "runs as one replica"),
        (values(replicas=0), "replicas is 0"),
        ((), "klm check "),
        ((), "klm join NAME --kubeconfig FILE --any-module "),
        ((), "klm status "),
        ((), f"{names.KYMA_NAME}: "),
        ((), f"{names.MANAGED_BY}: {names.LIFECYCLE_MANAGER}"),
        ((), "This name can be resolved in this cluster only"),
        (values(events__address="events.example.com:443"), "send their events to events.example.com:443."),
        (values(crds__keep=False), "WARNING"),
    ],
)
async def test_notes_describe_the_installation(helm: Helm, arguments: tuple[str, ...], expected: str) -> None:
    release = ("lifecycle-manager", str(LIFECYCLE_MANAGER), "--namespace=kcp-system", "--dry-run=client")
    _, _, notes = (await helm.run("install", *release, *arguments)).partition("\nNOTES:\n")
    assert expected in notes


async def test_metrics_with_common_names_are_selected_by_the_job_of_the_release(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER, *EVERYTHING, release="other")
    job = 'job="other-lifecycle-manager-metrics"'
    assert job.partition('"')[2].strip('"') in of_kind(rendered, "Service")
    common = r"\b(?:controller_runtime|workqueue|kube_runtime|rest_client|process)_\w+(\{[^}]*\})?|\bup\b(\{[^}]*\})?"
    for expression in expressions_in(rendered):
        for found in re.finditer(common, expression):
            assert job in found[0], f"{expression}: other programs of the cluster have this metric, too"


async def test_metrics_that_exist_for_alerts_have_one(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER, *EVERYTHING)
    (rules,) = of_kind(rendered, "PrometheusRule").values()
    alerts = {rule["alert"]: rule for group in rules["spec"]["groups"] for rule in group["rules"]}
    asked = " ".join(rule["expr"] for rule in alerts.values())
    for metric in (
        "lifecycle_mgr_skr_event_path_broken",
        "lifecycle_mgr_deletions_held",
        "lifecycle_mgr_self_signed_cert_not_renew",
        "lifecycle_mgr_maintenance_window_config_read_success",
        "lifecycle_mgr_watcher_ca_expiry_timestamp_seconds",
        "lifecycle_mgr_watcher_ca_phase_age_seconds",
    ):
        assert metric in asked
    for rule in alerts.values():
        assert {"summary", "description"} <= rule["annotations"].keys()
        assert rule["labels"]["severity"] in {"critical", "warning"}
    urls = {rule["annotations"]["runbook_url"]: f"# {alert}" for alert, rule in alerts.items()}
    assert all(each.startswith("https://") for each in urls)
    assert _titles_of_runbooks() == {f"docs/{each.partition('/docs/')[2]}": alert for each, alert in urls.items()}


async def test_dashboards_ask_for_metrics_that_the_watcher_has(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER, *EVERYTHING)
    asked = set(re.findall(r"\bwatcher_\w+", " ".join(expressions_in(rendered))))
    assert asked
    samples = {sample.name for family in Metrics().registry.collect() for sample in family.samples}
    families = {family.name + "_total" for family in Metrics().registry.collect() if family.type == "counter"}
    assert asked <= samples | families


@pytest.mark.parametrize("way", WAYS)
async def test_containers_are_unprivileged_and_have_limits(helm: Helm, way: str) -> None:
    chart, arguments = WAYS[way]
    rendered = await helm.render(chart, *arguments)
    (deployment,) = of_kind(rendered, "Deployment").values()
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == 10001
    assert pod["securityContext"]["runAsNonRoot"]
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    container = _container(rendered)
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert container["livenessProbe"]
    assert container["readinessProbe"]
    assert "memory" in container["resources"]["limits"]
    assert {"cpu", "memory"} <= set(container["resources"]["requests"])


@pytest.mark.parametrize("way", WAYS)
async def test_every_volume_is_mounted(helm: Helm, way: str) -> None:
    chart, arguments = WAYS[way]
    rendered = await helm.render(chart, *arguments)
    mounted = {mount["name"] for mount in _container(rendered).get("volumeMounts", [])}
    assert {volume["name"] for volume in _pod(rendered).get("volumes", [])} == mounted


async def test_pod_waits_for_the_ca_of_cert_manager(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER, *values(certManager__enabled=True))
    (certificate,) = of_kind(rendered, "Certificate").values()
    (issuer,) = of_kind(rendered, "Issuer").values()
    assert certificate["spec"]["issuerRef"]["name"] == issuer["metadata"]["name"]
    assert (certificate["spec"]["secretName"], certificate["spec"]["commonName"]) == (CAStore.name, CAStore.common_name)
    (volume,) = (each for each in _pod(rendered)["volumes"] if "secret" in each)
    assert volume["secret"]["secretName"] == CAStore.name
    assert not volume["secret"].get("optional")
    (mount,) = (each for each in _container(rendered)["volumeMounts"] if each["name"] == volume["name"])
    assert mount["readOnly"], "the kubelet waits only for volumes that a container mounts"
    given = values(certManager__enabled=True, certManager__issuerRef__name="company")
    assert not of_kind(await helm.render(LIFECYCLE_MANAGER, *given), "Issuer")


async def test_image_of_the_watcher_has_the_registry_and_version_of_lifecycle_manager(helm: Helm) -> None:
    version = load_yaml((LIFECYCLE_MANAGER / "Chart.yaml").read_text())["appVersion"]
    for given, image in (
        ({}, f"skr-watcher:{version}"),
        ({"image__registry": "registry.example.com/kyma"}, f"registry.example.com/kyma/skr-watcher:{version}"),
        ({"watcher__image": "elsewhere/watcher@sha256:0"}, "elsewhere/watcher@sha256:0"),
    ):
        container = _container(await helm.render(LIFECYCLE_MANAGER, *values(**given)))
        assert f"--skr-watcher-image={image}" in container["args"]


async def test_every_way_to_expose_the_events_passes_tls_through(helm: Helm) -> None:
    rendered = await helm.render(LIFECYCLE_MANAGER, *EVERYTHING)
    host, service = "events.kcp.example.com", "lifecycle-manager-events"
    ingress = of_kind(rendered, "Ingress")[service]
    assert ingress["metadata"]["annotations"] == {"nginx.ingress.kubernetes.io/ssl-passthrough": "true"}
    assert ingress["spec"]["rules"][0]["host"] == host
    route = of_kind(rendered, "TLSRoute")[service]["spec"]
    assert (route["hostnames"], route["rules"][0]["backendRefs"][0]["name"]) == ([host], service)
    gateway = of_kind(rendered, "Gateway")[service]["spec"]["servers"][0]
    assert (gateway["hosts"], gateway["tls"]) == ([host], {"mode": "PASSTHROUGH"})
    virtual = of_kind(rendered, "VirtualService")[service]["spec"]
    assert virtual["gateways"] == [f"kcp-system/{service}"]
    assert virtual["tls"][0]["match"][0]["sniHosts"] == [host]
    assert set(of_kind(rendered, "Service")) >= {service}


async def test_network_policy_restricts_both_directions_to_ports_of_the_pods(helm: Helm) -> None:
    for chart, arguments in WAYS.values():
        if chart == SKR_WATCHER:
            continue
        rendered = await helm.render(chart, *arguments)
        (policy,) = (each["spec"] for each in of_kind(rendered, "NetworkPolicy").values())
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        named = {port["name"] for port in _container(rendered)["ports"]}
        allowed = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
        assert allowed <= named


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("way", WAYS)
async def test_nodes_can_be_drained_with_any_number_of_replicas(helm: Helm, way: str, replicas: int) -> None:
    chart, arguments = WAYS[way]
    rendered = await helm.render(chart, *arguments, *values(replicas=replicas))
    (budget,) = of_kind(rendered, "PodDisruptionBudget").values()
    assert _deployment(rendered)["replicas"] == replicas
    assert budget["spec"]["selector"] == _deployment(rendered)["selector"]
    assert budget["spec"]["maxUnavailable"] == 1
    assert budget["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"


async def test_network_policies_allow_all_egress_that_is_needed(helm: Helm) -> None:
    dns = {(port, protocol) for port in (53, 8053) for protocol in ("UDP", "TCP")}  # CoreDNS of Gardener is at 8053
    api_servers = {(443, "TCP"), (6443, "TCP")}
    needed = {
        "lifecycle-manager": dns | api_servers | {("replicas", "TCP")},
        "cloud-resources": dns | api_servers,
        "skr-watcher": dns | {(443, "TCP")},
    }
    for way, wanted in needed.items():
        chart, arguments = WAYS[way]
        rendered = await helm.render(chart, *arguments)
        rules = [
            rule for each in of_kind(rendered, "NetworkPolicy").values() for rule in each["spec"].get("egress", [])
        ]
        assert {(port["port"], port["protocol"]) for rule in rules for port in rule["ports"]} == wanted
        restricted = {port["port"] for rule in rules if "to" in rule for port in rule["ports"]}
        assert restricted <= {"replicas"}, "the addresses of API servers and DNS are not known"


def _labels_of_pods(document: Any) -> Iterator[Any]:
    """Yield the values of labels and selectors of Pods, wherever they are."""
    for key, value in document.items() if isinstance(document, dict) else enumerate(document or ()):
        if key in {"matchLabels", "labels", "selector"} and isinstance(value, dict) and "matchLabels" not in value:
            yield from (each for name, each in value.items() if name.startswith("app.kubernetes.io/"))
        elif isinstance(value, dict | list):
            yield from _labels_of_pods(value)


def _deployment(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (deployment,) = of_kind(objects, "Deployment").values()
    return dict(deployment["spec"])


def _pod(objects: list[dict[str, Any]]) -> dict[str, Any]:
    return dict(_deployment(objects)["template"]["spec"])


def _titles_of_runbooks() -> dict[str, str]:
    return {str(path): path.read_text().partition("\n")[0] for path in Path("docs/runbooks").iterdir()}


def _container(objects: list[dict[str, Any]]) -> dict[str, Any]:
    (container,) = _pod(objects)["containers"]
    return dict(container)


def _settings(objects: list[dict[str, Any]]) -> Settings:
    """Return the settings that Lifecycle Manager reads in its Pod."""
    in_a_pod = {"POD_NAME": "lifecycle-manager-0", "POD_IP": "10.0.0.1"}
    command, *arguments = (expanded(word, in_a_pod) for word in _container(objects)["args"])
    assert command == "run"
    return settings_in(arguments)


def _one_sided(
    schema: dict[str, Any], defaults: dict[str, Any], definitions: dict[str, Any], path: str = ""
) -> Iterator[tuple[str, set[str]]]:
    """Yield differences of schema and defaults by their paths; an empty default may have any properties."""
    properties = {
        name: definitions[each["$ref"].rpartition("/")[2]] if "$ref" in each else each
        for name, each in schema.get("properties", {}).items()
    }
    of_charts_above = {"global", "enabled"} if not path else set()
    if difference := (set(properties) - {"claims"} - of_charts_above) ^ set(defaults):
        yield path, difference
    for name, each in properties.items():
        if defaults.get(name) and "properties" in each:
            yield from _one_sided(each, defaults[name], definitions, f"{path}.{name}")


def _renamed(objects: list[dict[str, Any]], changes: dict[str, str]) -> list[dict[str, Any]]:
    text = "---\n".join(dump_yaml(each) for each in objects)
    for here, there in changes.items():
        text = text.replace(here, there)
    return [dict(each.document) for each in parse_objects(text)]


def _by_identity(objects: Any) -> dict[tuple[str, str], dict[str, Any]]:
    return {(each["kind"], each["metadata"]["name"]): each for each in objects}


DOCUMENTED = [
    shlex.split(re.sub(r"\$\(.*?\)", "events.example.com", line))
    for line in re.findall(r"^helm (?:install|upgrade) .*", INSTALL.replace("\\\n", " "), re.MULTILINE)
]


@pytest.mark.parametrize("command", DOCUMENTED, ids=lambda command: f"{command[1]} {command[3]}")
async def test_documented_commands_set_existing_values(helm: Helm, command: list[str], tmp_path: Path) -> None:
    for name in ("tls.crt", "tls.key", "ca.crt"):
        (tmp_path / name).write_text("pem")
    _, _, release, chart, *options = command
    if "--reset-then-reuse-values" in options:
        options = [*_installation_of(release), *options]
    for without_cluster in ("--create-namespace", "--wait", "--reset-then-reuse-values"):
        options = [option for option in options if option != without_cluster]
    options = [re.sub(r"=(tls\.crt|tls\.key|ca\.crt)$", rf"={tmp_path}/\1", option) for option in options]
    assert await helm.run("template", release, str(CHARTS / chart.removeprefix("charts/")), *options)


def _installation_of(release: str) -> list[str]:
    return next(command[4:] for command in DOCUMENTED if command[1:3] == ["install", release])


@pytest.mark.parametrize(("chart", "given"), [(LIFECYCLE_MANAGER, ()), (MODULE_MANAGER, MANAGER)])
async def test_labels_of_pods_stay_in_the_selector_and_come_once(
    helm: Helm, chart: Path, given: tuple[str, ...]
) -> None:
    labels = {"app.kubernetes.io/name": "other", "app.kubernetes.io/version": "other", "team": "other"}
    label = values(**{f"podLabels.{key.replace('.', chr(92) + '.')}": each for key, each in labels.items()})
    (deployment,) = of_kind(await helm.render(chart, *given, *label), "Deployment").values()
    found, selected = (
        deployment["spec"]["template"]["metadata"]["labels"],
        deployment["spec"]["selector"]["matchLabels"],
    )
    assert selected.items() <= found.items()
    assert (found["team"], found["app.kubernetes.io/version"]) == ("other", "other")
    text = await helm.run(
        "template",
        "one",
        str(chart),
        "-n",
        NAMESPACES[chart],
        *given,
        *label,
        "--show-only",
        "templates/deployment.yaml",
    )
    assert text.count("app.kubernetes.io/version: other") == 1
    assert await helm.render(chart, *given, *values(podLabels="null"))


@pytest.mark.parametrize(
    ("chart", "given"),
    [
        (LIFECYCLE_MANAGER, ()),
        (
            MODULE_MANAGER,
            (
                *MANAGER,
                "--set-string",
                "namespace=mm,lifecycleManager.serviceAccount=456,lifecycleManager.clusterRole=123",
            ),
        ),
    ],
)
async def test_name_that_yaml_takes_for_a_number_is_a_text(helm: Helm, chart: Path, given: tuple[str, ...]) -> None:
    name = ("--set-string", "fullnameOverride=123,serviceAccount.name=456")
    text = await helm.run("template", "one", str(chart), "-n", NAMESPACES[chart], *given, *name)
    assert "123" in text
    assert not re.findall(r"[Nn]ame: \{?(?:123|456)\}?$", text, re.MULTILINE)


async def test_notes_without_replicas_leave_them_to_an_autoscaler(helm: Helm) -> None:
    given = ("install", "one", str(LIFECYCLE_MANAGER), "-n", "kcp-system", "--dry-run=client")
    assert "Nothing is reconciled" not in await helm.run(*given, *values(replicas="null"))
    assert "Nothing is reconciled" in await helm.run(*given, *values(replicas=0))


@pytest.mark.parametrize(
    ("chart", "given", "parts"),
    [
        (LIFECYCLE_MANAGER, (), ("serviceMonitor", "prometheusRule", "dashboards")),
        (MODULE_MANAGER, MANAGER, ("serviceMonitor",)),
    ],
)
async def test_labels_of_what_monitors_replace_ours(
    helm: Helm, chart: Path, given: tuple[str, ...], parts: tuple[str, ...]
) -> None:
    labels = {"app.kubernetes.io/part-of": "other"}
    metrics = {part: {"enabled": True, "labels": labels} for part in parts}
    asked = ("--set-json", f"metrics={json.dumps(metrics)}", "--show-only", "templates/monitoring.yaml")
    text = await helm.run("template", "one", str(chart), "-n", NAMESPACES[chart], *given, *asked)
    for document in text.split("\n---\n"):
        assert document.count("app.kubernetes.io/part-of:") == 1
    assert text.count("app.kubernetes.io/part-of: other") == len(parts)
