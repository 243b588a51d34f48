"""The Grafana dashboards of the chart for Lifecycle Manager, as code: `make charts` writes them as JSON.

A dashboard is a row of questions; each panel answers one. `@job@` is replaced by the chart.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

JOB = 'job="@job@"'
WIDTH, HEIGHT = 12, 8


@dataclass(frozen=True, slots=True)
class Panel:
    """A graph. `queries` are Prometheus expressions by their legends; `unit` is Grafana's."""

    title: str
    queries: Mapping[str, str]
    unit: str = "short"


@dataclass(frozen=True, slots=True)
class Dashboard:
    """A page of Grafana."""

    name: str
    title: str
    panels: Sequence[Panel]


def quantile(share: float, histogram: str, *by: str, job: bool = False, window: str = "5m") -> str:
    """Return the expression for a quantile of a histogram, for each combination of some labels."""
    labels = ", ".join(("le", *by))
    only = f"{{{JOB}}}" if job else ""
    return f"histogram_quantile({share}, sum by ({labels}) (rate({histogram}_bucket{only}[{window}])))"


def rate(counter: str, *by: str, only: str = "", window: str = "5m") -> str:
    """Return the expression for the increase of a counter in a second, for each combination of some labels."""
    labels = f" by ({', '.join(by)})" if by else ""
    selector = f"{{{only}}}" if only else ""
    return f"sum{labels} (rate({counter}{selector}[{window}]))"


CHANGE_PREFIX = "lifecycle_mgr_change_to_"
CHANGE = CHANGE_PREFIX + "{}_seconds"
IN_FORCE = CHANGE.format("sync_resource_applied")

FLEET = Dashboard(
    "fleet",
    "Kyma / Fleet",
    [
        Panel("Kymas by state", {"{{state}}": "sum by (state) (lifecycle_mgr_kymas)"}),
        Panel("Modules by state", {"{{state}}": "sum by (state) (lifecycle_mgr_modules)"}),
        Panel(
            "Modules that are not ready",
            {
                "{{module_name}} {{state}}": "sum by (module_name, state) "
                '(lifecycle_mgr_modules{state!~"Ready|Unmanaged"})'
            },
        ),
        Panel(
            "Mandatory modules that are not ready",
            {
                "{{module_name}} {{state}}": "sum by (module_name, state) "
                '(lifecycle_mgr_mandatory_manifests{state!="Ready"})'
            },
        ),
        Panel("Clusters without events", {"{{reason}}": "count by (reason) (lifecycle_mgr_skr_event_path_broken)"}),
        Panel(
            "Days until the CA ends",
            {"days": "(min(lifecycle_mgr_watcher_ca_expiry_timestamp_seconds) - time()) / 86400"},
        ),
    ],
)

ROLLOUT = Dashboard(
    "rollout",
    "Kyma / Rollout of module versions",
    [
        Panel(
            "Clusters by version",
            {
                "{{module_name}} {{version}} ({{channel}})": "sum by (module_name, channel, version) "
                '(lifecycle_mgr_modules{module_name!=""})'
            },
        ),
        Panel(
            "Versions with errors",
            {
                "{{module_name}} {{version}} {{state}}": "sum by (module_name, version, state) "
                '(lifecycle_mgr_modules{state=~"Error|Warning"})'
            },
        ),
        Panel(
            "Versions under way",
            {
                "{{module_name}} {{version}}": "sum by (module_name, version) "
                '(lifecycle_mgr_modules{state=~"Processing|Deleting"})'
            },
        ),
        Panel(
            "Mandatory modules by version",
            {"{{module_name}} {{version}}": "sum by (module_name, version) (lifecycle_mgr_mandatory_manifests)"},
        ),
        Panel(
            "Maintenance policy is readable",
            {"1 = yes": "min(lifecycle_mgr_maintenance_window_config_read_success)"},
        ),
        Panel(
            "Requeues by reason",
            {"{{requeue_reason}}": rate("lifecycle_mgr_requeue_reason_total", "requeue_reason")},
            "ops",
        ),
    ],
)

LATENCY = Dashboard(
    "latency",
    "Kyma / Latency of users' changes",
    [
        Panel(
            "Time until a change is in force", {"p50": quantile(0.5, IN_FORCE), "p99": quantile(0.99, IN_FORCE)}, "s"
        ),
        Panel(
            "Time to each stage, p99",
            {
                "event accepted": quantile(0.99, CHANGE.format("event_taken")),
                "ModuleConfig written": quantile(0.99, CHANGE.format("module_config_written")),
                "SyncResource applied": quantile(0.99, IN_FORCE),
            },
            "s",
        ),
        Panel(
            "Time in queue, p99",
            {"{{name}}": quantile(0.99, "workqueue_queue_duration_seconds", "name", job=True)},
            "s",
        ),
        Panel(
            "Time of a reconcile, p99",
            {"{{controller}}": quantile(0.99, "controller_runtime_reconcile_time_seconds", "controller", job=True)},
            "s",
        ),
        Panel("Keys in queues", {"{{name}}": f"sum by (name) (workqueue_depth{{{JOB}}})"}),
        Panel(
            "Busy workers",
            {
                "{{controller}}": f"sum by (controller) (controller_runtime_active_workers{{{JOB}}}) / "
                f"sum by (controller) (controller_runtime_max_concurrent_reconciles{{{JOB}}})"
            },
            "percentunit",
        ),
        Panel(
            "Workers that wait for the shared limit",
            {"{{controller}}": f"sum by (controller) (kube_runtime_waiting_workers{{{JOB}}})"},
        ),
    ],
)

REPLICAS = Dashboard(
    "replicas",
    "Kyma / Replicas of Lifecycle Manager",
    [
        Panel("Kymas of each replica", {"{{instance}}": "lifecycle_mgr_replica_kymas"}),
        Panel("CPU, in cores", {"{{instance}}": f"rate(process_cpu_seconds_total{{{JOB}}}[5m])"}),
        Panel("Memory", {"{{instance}}": f"process_resident_memory_bytes{{{JOB}}}"}, "bytes"),
        Panel("Open files", {"{{instance}}": f"process_open_fds{{{JOB}}}"}),
        Panel(
            "Reconciles",
            {"{{controller}} {{result}}": rate("controller_runtime_reconcile_total", "controller", "result", only=JOB)},
            "ops",
        ),
        Panel(
            "Failed reconciles",
            {"{{controller}}": rate("controller_runtime_reconcile_errors_total", "controller", only=JOB)},
            "ops",
        ),
        Panel("Objects in caches", {"{{resource}}": f"max by (resource) (kube_runtime_informer_objects{{{JOB}}})"}),
        Panel(
            "Failed lists and watches",
            {"{{resource}}": rate("kube_runtime_informer_failures_total", "resource", only=JOB)},
            "ops",
        ),
        Panel("Requests to API servers", {"{{code}}": rate("rest_client_requests_total", "code", only=JOB)}, "ops"),
        Panel("The admission policy is in force", {"1 = yes": "min(lifecycle_mgr_module_policy_in_force)"}),
    ],
)

WATCHER = Dashboard(
    "watcher",
    "Kyma / Watchers and their events",
    [
        Panel("Events accepted", {"events": rate("lifecycle_mgr_change_to_event_taken_seconds_count")}, "ops"),
        Panel("Events refused", {"{{reason}}": rate("lifecycle_mgr_event_refused_total", "reason")}, "ops"),
        Panel("Clusters without events", {"{{reason}}": "count by (reason) (lifecycle_mgr_skr_event_path_broken)"}),
        Panel("Certificates overdue", {"clusters": "sum(lifecycle_mgr_self_signed_cert_not_renew)"}),
        Panel(
            "Rotation of the CA",
            {
                "clusters behind": "max(lifecycle_mgr_watcher_ca_clusters_behind)",
                "hours in this phase": "max(lifecycle_mgr_watcher_ca_phase_age_seconds) / 3600",
            },
        ),
        Panel(
            "Certificates issued",
            {"{{issuer}}": rate("lifecycle_mgr_watcher_certificates_issued_total", "issuer", window="1h")},
            "ops",
        ),
        # From here on where this Prometheus has the metrics of the Watchers, too.
        Panel("Admission requests", {"reviews": rate("watcher_admission_request_total")}, "ops"),
        Panel("Answer to an admission request, p99", {"p99": quantile(0.99, "watcher_request_duration")}, "s"),
        Panel(
            "Deliveries",
            {
                "sent": rate("watcher_kcp_requests_total"),
                "failed": rate("watcher_failed_kcp_total"),
                "retried": rate("watcher_kcp_retries_total"),
            },
            "ops",
        ),
        Panel("Age of the oldest pending event, worst cluster", {"age": "max(watcher_outbox_oldest_age_seconds)"}, "s"),
    ],
)

DASHBOARDS = (FLEET, ROLLOUT, LATENCY, REPLICAS, WATCHER)


def document(dashboard: Dashboard) -> dict[str, Any]:
    """Return a dashboard as Grafana imports it: two panels in a row."""
    return {
        "title": dashboard.title,
        "uid": f"kyma-{dashboard.name}",
        "tags": ["kyma"],
        "schemaVersion": 39,
        "version": 1,
        "editable": False,
        "refresh": "30s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {
            "list": [{"name": "datasource", "type": "datasource", "query": "prometheus", "label": "Data source"}]
        },
        "panels": [_panel(panel, number) for number, panel in enumerate(dashboard.panels)],
    }


def _panel(panel: Panel, number: int) -> dict[str, Any]:
    targets = enumerate(panel.queries.items())
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": {"type": "prometheus", "uid": "${datasource}"},
        "gridPos": {"x": number % 2 * WIDTH, "y": number // 2 * HEIGHT, "w": WIDTH, "h": HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "expr": expression,
                "legendFormat": legend,
                **({"exemplar": True} if CHANGE_PREFIX in expression else {}),
            }
            for index, (legend, expression) in targets
        ],
    }
