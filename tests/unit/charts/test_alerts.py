"""The alerts of the chart, evaluated by Prometheus' own program."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from kube_runtime import dump_yaml
from tests.debian import NoPackage, find_program

ALERTS = Path(__file__).parents[3] / "charts" / "lifecycle-manager" / "files" / "alerts.yaml"
RECONCILES = "controller_runtime_reconcile"


@pytest.fixture(scope="session")
def promtool() -> Path:
    try:
        return find_program("prometheus").with_name("promtool")
    except NoPackage as error:
        pytest.skip(str(error))


def test_clusters_that_do_not_answer_are_no_failures_of_lifecycle_manager(promtool: Path, tmp_path: Path) -> None:
    """A probe of one fails each time, and in a large fleet there are always some; the state of their Kymas is Error."""
    groups = ALERTS.read_text().replace("@job@", "lm").replace("@runbooks@", "docs")
    (tmp_path / "alerts.yaml").write_text(f"groups:\n{groups}")
    failing = {"skr-probe": 10, "manifest": 3, "kyma": 1}
    series = [
        {"series": f'{RECONCILES}{what}_total{{job="lm", controller="{controller}"}}', "values": f"0+{each}x60"}
        for controller, errors in failing.items()
        for what, each in (("_errors", errors), ("", 10))
    ]
    labels = {"severity": "warning", "controller": "manifest"}
    annotations = {
        "summary": "30% of the reconciles of manifest fail.",
        "description": "The log names the cause, with the Kyma and the module in each line.",
        "runbook_url": "docs/lifecycle-manager-reconciles-fail.md",
    }
    fired = {"exp_labels": labels, "exp_annotations": annotations}
    asked = {"eval_time": "50m", "alertname": "LifecycleManagerReconcilesFail", "exp_alerts": [fired]}
    test: dict[str, Any] = {"interval": "1m", "input_series": series, "alert_rule_test": [asked]}
    (tmp_path / "test.yaml").write_text(dump_yaml({"rule_files": ["alerts.yaml"], "tests": [test]}))

    done = subprocess.run(
        [promtool, "test", "rules", tmp_path / "test.yaml"], capture_output=True, text=True, check=False, timeout=60
    )

    assert done.returncode == 0, done.stdout + done.stderr
