"""A failed request names its cause: a missing right has another reason than a policy or a quota of the cluster."""

import pytest

from kube_runtime import Forbidden
from lifecycle_manager.skr.failure import failure_of

WITHOUT_RIGHT = (
    'moduletemplates.operator.kyma-project.io "keda-1.0.0" is forbidden: User "system:serviceaccount:kube-system:'
    'lifecycle-manager" cannot patch resource "moduletemplates" in API group "operator.kyma-project.io"'
)
BY_A_WEBHOOK = 'admission webhook "validate.kyverno.svc-fail" denied the request: a label is missing'
BY_A_POLICY = (
    "kymas.operator.kyma-project.io \"default\" is forbidden: ValidatingAdmissionPolicy 'labels' with binding 'all' "
    "denied request: a label is missing"
)
BY_A_QUOTA = 'services "skr-webhook" is forbidden: exceeded quota: no-services, requested: services=1, used: services=0'
IN_A_NAMESPACE_THAT_IS_BEING_DELETED = (
    'secrets "skr-webhook-tls" is forbidden: unable to create new content in namespace kyma-system because it is being '
    "terminated"
)
BY_ESCALATION = (
    'clusterroles.rbac.authorization.k8s.io "keda" is forbidden: user "lifecycle-manager" (groups=["system:'
    'authenticated"]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[""], Verbs:["*"]}'
)


@pytest.mark.parametrize("message", [WITHOUT_RIGHT, BY_ESCALATION])
def test_missing_right_is_one_of_the_credentials(message: str) -> None:
    failure = failure_of(Forbidden(403, "Forbidden", message))
    assert failure.reason == "SKRForbidden"
    assert failure.message.startswith("the credentials of the access Secret lack a right: ")


@pytest.mark.parametrize("message", [BY_A_WEBHOOK, BY_A_POLICY, BY_A_QUOTA, IN_A_NAMESPACE_THAT_IS_BEING_DELETED])
def test_request_that_the_cluster_refuses_to_all_does_not_blame_the_credentials(message: str) -> None:
    failure = failure_of(Forbidden(403, "Forbidden", message))
    assert failure.reason == "SKRRequestFailed"
    assert failure.message == f"the cluster refused a request: {message} (403 Forbidden)"
    assert failure.may_pass
