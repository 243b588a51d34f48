"""`klm bundle`: what of an object is kept, and that no credential is."""

import json
import tarfile
import time
from pathlib import Path
from typing import Any

import pytest

from kyma_fleet.bundle.archive import new_archive
from kyma_fleet.bundle.redaction import REDACTED, kept_of, redacted
from kyma_fleet.problems import Problem

PLANTED = "pl4nted-s3cret"
JWT = f"eyJhbGciOiJSUzI1NiJ9.{PLANTED}.c2lnbmF0dXJl"


def written(kind: str, **parts: Any) -> dict[str, Any]:
    metadata = {
        "name": "a",
        "labels": {"app": "a"},
        "managedFields": [{"manager": PLANTED}],
        "annotations": {
            "kubectl.kubernetes.io/last-applied-configuration": json.dumps({"data": {"password": PLANTED}}),
            "example.com/note": PLANTED,
            "operator.kyma-project.io/paused-reason": f"see token={PLANTED}",
            "operator.kyma-project.io/paused-by": "ada",
        },
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}


CONTAINER = {
    "name": "manager",
    "image": "example.com/lm:1",
    "command": ["sh", PLANTED],
    "args": [f"--client-secret={PLANTED}", "--log-level=info", "--api-token", PLANTED, "--force"],
    "env": [{"name": "PASSWORD", "value": PLANTED}, {"name": "HARMLESS", "value": PLANTED}],
}
POD = {"containers": [CONTAINER], "volumes": [{"name": PLANTED}]}
OBJECTS = [
    written("Kyma", spec={"channel": "regular", "sync": {"a": PLANTED}}, status={"lastOperation": f"Bearer {JWT}"}),
    written("Manifest", spec={"version": "1.0.0", "resource": {"spec": {"password": PLANTED}}}),
    written("ModuleConfig", spec={"kyma": "a", "resource": PLANTED}, status={"moduleStatus": {"user": PLANTED}}),
    written("SyncResource", spec={"kyma": "a", "resource": f"kind: Secret\nstringData: {{a: {PLANTED}}}"}),
    written("ModuleTemplate", spec={"moduleName": "a", "data": {"a": PLANTED}, "descriptor": {"a": PLANTED}}),
    written("Watcher", spec={"manager": f"https://user:{PLANTED}@example.com", "apiToken": PLANTED}),
    written("Deployment", spec={"replicas": 2, "template": {"spec": POD}}),
    written("Pod", spec=POD),
    written("Secret", data={"a": PLANTED}, stringData={"a": PLANTED}),
    written("ConfigMap", data={"kubeconfig": PLANTED}),
    written("Event", note=f"refused: password: '{PLANTED}'", reason="ApplyFailed", somethingNew=PLANTED),
]


@pytest.mark.parametrize("document", OBJECTS, ids=lambda each: each["kind"])
def test_nothing_that_was_planted_in_an_object_is_kept(document: dict[str, Any]) -> None:
    kept = json.dumps(kept_of(document))
    assert PLANTED not in kept
    assert '"name": "a"' in kept
    assert '"operator.kyma-project.io/paused-by": "ada"' in kept


def test_what_support_needs_is_kept() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "ApplyFailed", "message": "denied by policy"}]
    kyma = kept_of(written("Kyma", spec={"channel": "fast"}, status={"state": "Error", "conditions": conditions}))
    assert (kyma["spec"], kyma["status"]["conditions"]) == ({"channel": "fast"}, conditions)
    (container,) = kept_of(written("Deployment", spec={"template": {"spec": POD}}))["spec"]["containers"]
    assert container["args"] == [f"--client-secret={REDACTED}", "--log-level=info", "--api-token", REDACTED, "--force"]
    assert [each["name"] for each in container["env"]] == ["PASSWORD", "HARMLESS"]


@pytest.mark.parametrize(
    "text",
    [
        f"Authorization: Bearer {PLANTED}",
        f"token {JWT} has expired",
        f"GET https://robot:{PLANTED}@registry.example.com/v2/",
        f"-----BEGIN PRIVATE KEY-----\n{PLANTED}\n-----END PRIVATE KEY-----",
        f'{{"password": "{PLANTED}"}}',
        f"client-key-data: {PLANTED}",
        f"secret={PLANTED}&user=a",
        f"https://store.example.com/module.yaml?X-Amz-Expires=60&X-Amz-Signature={PLANTED}",
        f"https://store.example.com/module.yaml?se=2026&sig={PLANTED}",
        f"--password {PLANTED}",
        rf'{{"error": "refused {{\"password\": \"not {PLANTED}\"}}"}}',
        f"kubeconfig {'A' * 60}{PLANTED.replace('-', '')}{'B' * 60}",
    ],
)
def test_credentials_in_texts_are_replaced(text: str) -> None:
    assert PLANTED not in redacted(text)
    assert PLANTED.replace("-", "") not in redacted(text)
    assert REDACTED in redacted(text)


@pytest.mark.parametrize("text", ["a.", "secret.", ".secret_a", "eyJä-", "-----BEGIN a", "token    ", "://a?"])
def test_log_of_a_hostile_container_is_read_in_linear_time(text: str) -> None:
    def seconds(size: int) -> float:
        log = text * (size // len(text))
        start = time.process_time()
        redacted(log)
        return time.process_time() - start

    seconds(1_000)
    assert min(seconds(160_000) for _ in range(3)) < 40 * min(seconds(10_000) for _ in range(3))


@pytest.mark.parametrize("text", [f"sha256:{'0a' * 32}", "Secret kcp-system/kubeconfig-demo is missing", "uid 4-5-6"])
def test_texts_without_credentials_stay(text: str) -> None:
    assert redacted(text) == text


def test_archive_is_of_its_owner_alone_bounded_and_replaces_no_file(tmp_path: Path) -> None:
    file = tmp_path / "bundle.tar.gz"
    with new_archive(file, max_bytes=10) as archive:
        archive.add("first.txt", "12345678")
        archive.add("second.txt", "12345678")
        archive.add("third.txt", "12345678")
    assert [(each.name, each.size, each.cut) for each in archive.files] == [
        ("first.txt", 8, False),
        ("second.txt", 2, True),
        ("third.txt", 0, True),
    ]
    assert file.stat().st_mode & 0o777 == 0o600
    with tarfile.open(file) as tar:
        assert tar.getnames()[0] == "klm-bundle/first.txt"
    with pytest.raises(Problem, match="File exists; choose another with --file"), new_archive(file, max_bytes=10):
        pass
