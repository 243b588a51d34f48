"""`klm bundle`: what of an object is kept, and that no credential is."""

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest

from kyma_fleet.bundle.command import new_archive
from kyma_fleet.bundle.kept import kept_of
from kyma_fleet.bundle.words import REDACTED, Words
from kyma_fleet.problems import Problem
from lifecycle_manager_api import names
from tests.cpu_time import is_linear

PLANTED = "pl4nted-s3cret"
WORDS = Words()
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
            "operator.kyma-project.io/paused-at": "2026-11-22T10:00:00Z",
        },
    }
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, **parts}


CONTAINER = {
    "name": "manager",
    "image": "example.com/lm:1",
    "command": ["sh", PLANTED],
    "args": [f"--client-secret={PLANTED}", "--log-level=info", "--api-token", PLANTED, "--force"],
    "env": [{"name": "PASSWORD", "value": PLANTED}, {"name": "MEADOW-7", "value": PLANTED}],
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
    kept = json.dumps(kept_of(document, WORDS))
    assert PLANTED not in kept
    assert '"name": "a"' in kept
    assert '"operator.kyma-project.io/paused-at": "2026-11-22T10:00:00Z"' in kept


SECRETS = (
    "ghp_16C7e42F292c6912E7710c838347Ae178B4a",
    "github_pat_11ABCDEFG0aBcDeFgHiJkL_mNoPqRsTuVwXyZ0123456789abcdefghij",
    "xoxb-123456789012-1234567890123-AbCdEfGhIjKlMnOpQrStUvWx",
    "AccountKey=Zm9vYmFyYmF6cXV4MTIzNDU2Nzg5MA==;EndpointSuffix=core",
    '{"auths":{"registry.example.com":{"auth":"cm9ib3Q6aHVudGVyMg=="}}}',
    "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
    "https://robot:hunt/er2@registry.example.com/v2/",
    "https://robot:hu@nter2@registry.example.com/v2/",
    "Set-Cookie: session=s%3Ahunter2.4vT9q; Path=/",
    "password: |\n  hunter2\n  correct horsse\nuser: x",
    "2026-11-22T10:00:00Z manager | -----BEGIN PRIVATE KEY-----\n2026-11-22T10:00:00Z manager | MIIEvQIBADANBg\n",
    "password='hunter2 horsse'",
    "hunter2",
    "1234567890123456",
    "4111-1111-1111-1111",
)
LEAKED = (
    *("16C7e42F", "11ABCDEF", "AbCdEfGh", "123456789012", "Zm9vYmFy", "cm9ib3Q6", "MfKQ9r8G", "hunt/er2", "nter2"),
    *("hunter2", "4vT9q", "horsse", "MIIEvQ", "1234567890123456", "4111-1111", "4111"),
)


@pytest.mark.parametrize("secret", SECRETS)
def test_secret_is_kept_nowhere_where_users_or_teams_write(secret: str) -> None:
    name = {"apiVersion": "v1", "kind": "Secret", "name": secret, "namespace": secret}
    marks = {f"{names.GROUP}/note": secret, names.CHANNEL: secret, "kyma-project.io/x": secret, secret: secret}
    condition = {"type": secret, "reason": secret, "message": f"refused: {secret}", "status": "False"}
    part = {"name": secret, "channel": secret, "version": secret, "message": secret, "resource": name}
    status = {"conditions": [condition], "modules": [part], "synced": [name], "lastOperation": {"operation": secret}}
    status |= {"moduleStatus": {"a": secret, "number": 1234567890123456}, "failedClusters": [part]}
    spec = {
        "modules": [part],
        "install": part,
        "resourceRef": name,
        "channels": [part],
        "kymaSelector": {secret: secret},
    }
    spec |= {"version": secret, "moduleName": secret, "data": part, "resource": secret, "allow": [{"kind": secret}]}
    for kind in ("Kyma", "Manifest", "ModuleConfig", "SyncResource", "ModuleTemplate", "ModuleReleaseMeta", "Secret"):
        labels = {} if kind == "Kyma" else marks  # those of a Kyma are written by operators
        metadata = {"name": "a", "labels": labels, "annotations": marks, "finalizers": [f"example.com/{secret}"]}
        kept = json.dumps(kept_of({"kind": kind, "metadata": metadata, "spec": spec, "status": status}, WORDS))
        assert not [each for each in LEAKED if each in kept], kind
    event = {"kind": "Event", "note": secret, "reason": secret, "action": secret, "regarding": name}
    logged = json.dumps({"event": "refused", "error": secret, secret: 1})
    texts = (json.dumps(kept_of(event, WORDS)), WORDS.kept(logged), WORDS.kept(secret), WORDS.kept(f"x: {secret}\n"))
    metrics = WORDS.kept_metrics(f'lifecycle_mgr_up{{host="{secret}"}} 1.5\n')
    for text in (*texts, metrics):
        assert not [each for each in LEAKED if each in text]


def test_what_support_needs_is_kept() -> None:
    conditions = [{"type": "Ready", "status": "False", "reason": "ApplyFailed", "message": "denied by policy"}]
    kyma = kept_of(
        written("Kyma", spec={"channel": "fast"}, status={"state": "Error", "conditions": conditions}), WORDS
    )
    assert (kyma["spec"], kyma["status"]["conditions"]) == ({"channel": "fast"}, conditions)
    (container,) = kept_of(written("Deployment", spec={"template": {"spec": POD}}), WORDS)["spec"]["containers"]
    assert container["args"] == [f"--client-secret={REDACTED}", "--log-level=info", "--api-token", REDACTED, "--force"]
    assert container["env"] == ["PASSWORD", REDACTED]


def test_names_of_clusters_and_modules_are_kept_in_texts() -> None:
    words = Words()
    text = "Deployment kyma-system/keda-operator of c7b1a3e2-12345678: container keda needs 2Gi (OOMKilled)"
    assert REDACTED in words.kept(text)
    for kind, name in (("Kyma", "c7b1a3e2-12345678"), ("ModuleReleaseMeta", "keda")):
        kept_of({"kind": kind, "metadata": {"name": name}}, words)
    assert words.kept(text) == text


@pytest.mark.parametrize(
    "text",
    [
        '{"event":"module config written","kyma":"demo","level":"info","timestamp":"2026-11-22T10:00:00.123456Z"}',
        "waiting for deletion of 3 objects: CrashLoopBackOff, back-off 5m0s restarting failed container",
        "0/3 nodes are available: insufficient memory",
        'kymas.operator.kyma-project.io is forbidden: User cannot patch resource "kymas" in API group',
        f"sha256:{'0a' * 32}",
        "Secret kcp-system/kubeconfig-demo is missing",
    ],
)
def test_words_of_the_product_and_of_kubernetes_are_kept(text: str) -> None:
    assert WORDS.kept(text) == text


def test_measurements_are_kept() -> None:
    text = '# HELP lifecycle_mgr_up Whether it is up.\nlifecycle_mgr_up{state="Ready"} 1.7325123456e+09\n'
    assert REDACTED not in WORDS.kept_metrics(text)


@pytest.mark.parametrize("text", ["a.", "secret.", "AbCd", "eyJä-", "aaaa", "token    ", "2026-11-", "1.1 1"])
def test_log_of_a_hostile_container_is_read_in_linear_time(text: str) -> None:
    assert is_linear(WORDS.kept, lambda size: text * (size // len(text)), size=10_000)


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
    with pytest.raises(OSError, match="full"), new_archive(tmp_path / "cut.tar.gz", max_bytes=10):
        raise OSError("the disk is full")
    assert not (tmp_path / "cut.tar.gz").exists()
