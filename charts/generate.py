"""Writes the parts of the charts that say again what the code says: `python -m charts.generate`, or `make charts`.

Helm reads nothing outside of a chart, so these are copies; tests hold them against their sources. The chart that
`klm module new` makes is such a copy, too: of the chart for Module Managers, with the module's names in it.
"""

from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec

from kube_runtime import dump_yaml
from kyma_certs import KeyPair
from lifecycle_manager.crd_installation import write_crds
from lifecycle_manager.settings import Settings
from lifecycle_manager.skr_webhook.documents import WatcherSettings, workload_documents

CHARTS = Path("charts")
PROJECT_CHART = Path("module_manager/src/kyma_module_manager/project/template/chart")
GENERATED = "# Written by `make charts` from {source}; change that.\n"

PLACEHOLDER = "kcp-address:65534"
"""An address whose parts stand in the objects where the chart has its value."""

PULL_SECRETS = """\
      {{- with .Values.imagePullSecrets }}
      imagePullSecrets: {{- toYaml . | nindent 6 }}
      {{- end }}
"""
"""What only the chart knows of: who installs by hand may use a registry that asks for credentials."""

RIGHTS = "module_manager/rbac.yaml"
OF_A_PROJECT = {
    "Chart.yaml.template": {
        "name: module-manager": "name: @@module@@-manager",
        "Runs the Module Manager of a Kyma module in": "The Module Manager of the Kyma module @@module@@, for",
        "home: https://kyma-project.io\n": "",
    },
    "values.yaml.template": {
        "chart module-manager: one release for each module, beside": "chart @@module@@-manager, which runs beside",
        "# Set `manager`, and `image` to one that holds it.": "# Set `image` to what the Dockerfile makes.",
        " Required.\n": "\n",
        'manager: ""': 'manager: "@@package@@:objects"',
        "  # The default holds the samples, kyma_module_manager.samples.{cloud_resources,guestbook}:objects.\n": "",
        "repository: module-manager": "repository: @@module@@-manager",
    },
    "values.schema.json.template": {"of the chart module-manager": "of the chart @@module@@-manager"},
}
"""What the chart of a project says in the place of what the one here says."""

OWN_VALUES = frozenset(
    {
        "kubeconfig",
        "kyma_skr_listener_bind_address",
        "metrics_bind_address",
        "health_probe_bind_address",
        "event_address",
        "enable_webhooks",
        "webhook_bind_address",
        "webhook_service",
        "additional_dns_names",
        "skr_watcher_image",
        "skr_webhook_memory_limits",
        "skr_webhook_cpu_limits",
        "maintenance_policy",
        "module_cache_dir",
        "replica_name",
        "replica_bind_address",
        "replica_address",
        "log_level",
        "log_format",
    }
)
"""Options of `klm run` that the chart sets from values of other names."""


def write_chart_files(charts: Path = CHARTS) -> tuple[Path, ...]:
    """Write every generated file below a folder; return the files."""
    written = list(write_crds(charts / "lifecycle-manager/files/crds"))
    for path, text in generated_texts().items():
        file = charts / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        written.append(file)
    schema = charts / "lifecycle-manager/values.schema.json"
    schema.write_text(_with_options(schema.read_text()))
    return (*written, schema)


def write_project_chart(folder: Path = PROJECT_CHART) -> tuple[Path, ...]:
    """Write the chart of new module projects into a folder, and nothing else stays there; return the files."""
    wanted = {folder / path: text for path, text in project_chart_texts().items()}
    for left in set(folder.rglob("*.template")) - wanted.keys():
        left.unlink()
    for file, text in wanted.items():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return tuple(wanted)


def generated_texts() -> dict[str, str]:
    """Return the generated files that are whole, CRDs excepted, by their paths below the charts' folder."""
    return {
        "lifecycle-manager/files/rbac.yaml": _copy("lifecycle_manager.rbac", "kcp.yaml", "lifecycle_manager/rbac"),
        "lifecycle-manager/files/rbac-cert-manager.yaml": _copy(
            "lifecycle_manager.rbac", "kcp-cert-manager.yaml", "lifecycle_manager/rbac"
        ),
        "module-manager/files/rbac.yaml": _copy("kyma_module_manager", "rbac.yaml", "module_manager"),
        "skr-watcher/templates/workload.yaml": _watcher_templates(),
    }


def project_chart_texts(source: Path = CHARTS / "module-manager") -> dict[str, str]:
    """Return the chart of new module projects: the templates of its files, by their paths."""
    texts = {
        f"{file.relative_to(source)}.template": file.read_text().removeprefix(GENERATED.format(source=RIGHTS))
        for file in sorted(source.rglob("*"))
        if file.is_file() and "ci" not in file.relative_to(source).parts
    }
    for path, changes in OF_A_PROJECT.items():
        for here, there in changes.items():
            if texts[path].count(here) != 1:
                raise ValueError(f"{path} does not say once: {here}")
            texts[path] = texts[path].replace(here, there)
    return texts


def options_schema() -> dict[str, Any]:
    """Return the schema of the value `options`: every option of `klm run` that has no value of its own."""
    options = {
        name.replace("_", "-"): {"description": field.description, "$ref": "#/definitions/option"}
        for name, field in sorted(Settings.model_fields.items())
        if name not in OWN_VALUES
    }
    return {"type": "object", "additionalProperties": False, "properties": options}


def _with_options(text: str) -> str:
    schema = msgspec.json.decode(text)
    schema["properties"]["options"] = options_schema()
    return msgspec.json.format(msgspec.json.encode(schema), indent=2).decode() + "\n"


def _copy(package: str, name: str, source: str) -> str:
    return GENERATED.format(source=f"{source}/{name}") + files(package).joinpath(name).read_text()


def _watcher_templates() -> str:
    """Return the objects that LM brings to a cluster, with values of the chart in the place of facts."""
    settings = WatcherSettings(
        image='{{ include "skr-watcher.image" . }}',
        kcp_address=PLACEHOLDER,
        memory_limit="{{ .Values.resources.limits.memory }}",
        cpu_limit="{{ .Values.resources.limits.cpu }}",
    )
    documents = workload_documents(settings, KeyPair(certificate_pem=b"", key_pem=b""), b"")
    ours = [document for document in documents if document["kind"] != "Secret"]  # its content is no template
    head = GENERATED.format(source="lifecycle_manager/skr_webhook/documents.py")
    text = head + "---\n".join(dump_yaml(document) for document in ours)
    address, port = PLACEHOLDER, PLACEHOLDER.rpartition(":")[2]
    values = {
        address: "'{{ .Values.kcpAddress }}'",
        f"port: {port}\n": 'port: {{ splitList ":" .Values.kcpAddress | last }}\n',
        f"replicas: {settings.replicas}\n": "replicas: {{ .Values.replicas }}\n",
        "      priorityClassName:": PULL_SECRETS + "      priorityClassName:",
    }
    for fact, value in values.items():
        if text.count(fact) != 1:
            raise ValueError(f"the Watcher's objects do not say once: {fact}")
        text = text.replace(fact, value)
    return text


if __name__ == "__main__":
    write_chart_files()
    write_project_chart()
