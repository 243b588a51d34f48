"""Errors in one line, with what to do."""

from pathlib import Path

import pytest

from kube_runtime import (
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KubeconfigInvalid,
    KubeError,
    NotFound,
    NotServed,
    ServerUnavailable,
    TooManyRequests,
    Unauthorized,
)
from kyma_fleet.problems import Problem, line_for
from kyma_fleet.registration.accounts import of_cluster
from tests.klm import run_klm


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (KubeconfigInvalid("no kubeconfig"), "set KUBECONFIG, or use --kubeconfig FILE"),
        (Unauthorized(401, "Unauthorized", "no"), "log in again"),
        (Forbidden(403, "Forbidden", "kymas is forbidden"), "ClusterRole klm-viewer"),
        (Forbidden(403, "Forbidden", "kymas is forbidden"), "klm-registrar to join and leave"),
        (Forbidden(403, "Forbidden", "secrets is forbidden", {"kind": "secrets"}), "ClusterRole klm-skr-access"),
        (Forbidden(403, "Forbidden", "secrets is forbidden", {"kind": "secrets"}), "klm-registrar to join and leave"),
        (NotFound(404, "NotFound", "not found", {"name": "demo"}), "klm get lists what there is"),
        (NotServed(404, "NotFound", "page not found"), "may not be a control plane"),
        (Gone(410, "Expired", "too old"), "try again"),
        (ClusterUnreachable("timed out"), "check the network"),
        (KubeError("x\x1b[2J\ny"), "x y"),
        (Conflict(409, "Conflict", "changed"), "try again"),
        (TooManyRequests(429, "TooManyRequests", "busy"), "try again"),
        (ServerUnavailable(503, "ServiceUnavailable", "down"), "try again"),
    ],
)
def test_each_error_says_what_to_do(error: Exception, advice: str) -> None:
    line = line_for(error)
    assert advice in line
    assert line.isprintable()


@pytest.mark.parametrize(
    "error",
    [
        Invalid(422, "Invalid", "spec.channel is wrong"),
        Forbidden(403, "Forbidden", 'admission webhook "a" denied the request: not on a Friday'),
        KubeError("a nested list"),
    ],
)
def test_what_a_second_try_cannot_mend_does_not_ask_for_one(error: Exception) -> None:
    assert line_for(error) == str(error)


@pytest.mark.parametrize("command", ["join", "leave"])
async def test_where_kubeconfig_is_of_a_cluster_the_option_for_the_control_plane_is_named(
    tmp_path: Path, command: str
) -> None:
    of_cluster = tmp_path / "skr.yaml"
    of_cluster.touch()
    result = await run_klm(tmp_path / "missing", command, "demo", "--kubeconfig", str(of_cluster))
    assert result.code == 2
    assert "use --kcp-kubeconfig FILE" in result.errors


def test_right_that_is_missing_in_a_cluster_is_not_looked_for_in_the_control_plane() -> None:
    wanted = r"^the cluster of skr\.yaml: no .*; --kubeconfig has to be of its administrator$"
    with pytest.raises(Problem, match=wanted), of_cluster(Path("skr.yaml")):
        raise Forbidden(403, "Forbidden", "no")


def test_a_problem_of_our_own_says_it_itself() -> None:
    assert line_for(Problem("name a Kyma")) == "name a Kyma"
