"""Errors in one line, with what to do."""

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


@pytest.mark.parametrize(
    ("error", "advice"),
    [
        (KubeconfigInvalid("no kubeconfig"), "set KUBECONFIG, or use --kubeconfig FILE"),
        (Unauthorized(401, "Unauthorized", "no"), "log in again"),
        (Forbidden(403, "Forbidden", "kymas is forbidden"), "ClusterRole klm-viewer"),
        (Forbidden(403, "Forbidden", "secrets is forbidden", {"kind": "secrets"}), "ClusterRole klm-skr-access"),
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


def test_a_problem_of_our_own_says_it_itself() -> None:
    assert line_for(Problem("name a Kyma")) == "name a Kyma"
