"""What to do for a reason, as a command."""

from collections.abc import Mapping

from lifecycle_manager.contract.conditions import CERTIFICATE_OVERDUE, EVENT_PATH_FAULTS

ADVICE: Mapping[str, str] = {
    "AccessSecretMissing": "klm join {kyma} --kubeconfig FILE   # of an administrator of the cluster",
    "AccessSecretIncomplete": "kubectl -n {ns} get secrets -l {kyma_label}={kyma}   # put a kubeconfig under `config`",
    "AccessSecretUnusable": "kubectl -n {ns} get secrets -l {kyma_label}={kyma}   # correct the kubeconfig",
    "SKRUnauthorized": "klm join {kyma} --kubeconfig FILE   # of an administrator of the cluster",
    "SKRForbidden": "kubectl -n {ns} get secrets -l {kyma_label}={kyma}   # grant the right to its user",
    "PolicyViolation": "kubectl -n {ns} get modulepolicies",
    "ObjectsForbidden": "kubectl -n {ns} get modulepolicies",
    "ModuleNotFound": "klm get releases",
    "ChannelNotFound": "klm get releases {module}",
    "ModuleTemplateNotFound": "kubectl -n {ns} get moduletemplates",
    "ApplyFailed": "klm diff {kyma} {module}",
    **dict.fromkeys(EVENT_PATH_FAULTS, "kubectl -n kyma-system logs deployment/skr-webhook   # in the cluster"),
    CERTIFICATE_OVERDUE: "kubectl -n {ns} get certificates",
    "CredentialsInvalid": "kubectl -n {ns} describe manifest {manifest}",
    "Orphaned": "kubectl -n {ns} delete manifest {manifest}",
}
"""`{ns}`, `{kyma_label}`, `{kyma}`, `{module}` and `{manifest}` stand for what the reason is about."""
