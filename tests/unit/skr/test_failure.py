"""A failed request names its cause: a missing right and a policy of the cluster have different reasons."""

import pytest

from kube_runtime import Forbidden
from lifecycle_manager.skr import failure_of

WITHOUT_RIGHT = (
    'moduletemplates.operator.kyma-project.io "keda-1.0.0" is forbidden: User "system:serviceaccount:kube-system:'
    'lifecycle-manager" cannot patch resource "moduletemplates" in API group "operator.kyma-project.io"'
)
BY_A_WEBHOOK = 'admission webhook "validate.kyverno.svc-fail" denied the request: a label is missing'
BY_A_POLICY = (
    "kymas.operator.kyma-project.io \"default\" is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'all' "
    "denied request: a label is missing"
)


def test_missing_right_is_one_of_the_credentials() -> None:
    failure = failure_of(Forbidden(403, "Forbidden", WITHOUT_RIGHT))
    assert failure.reason == "SKRForbidden"
    assert failure.message.startswith("the credentials of the access Secret lack a right: ")


@pytest.mark.parametrize("message", [BY_A_WEBHOOK, BY_A_POLICY])
def test_request_that_a_policy_of_the_cluster_denies_does_not_blame_the_credentials(message: str) -> None:
    failure = failure_of(Forbidden(403, "Forbidden", message))
    assert failure.reason == "SKRRequestFailed"
    assert failure.message == f"the cluster refused a request: {message} (403 Forbidden)"
    assert failure.may_pass
