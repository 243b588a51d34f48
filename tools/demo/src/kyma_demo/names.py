"""The names of the demo's objects."""

from lifecycle_manager_api import names

KYMA = "demo"
RUNTIME_ID = "5f1f6bd3-6d2c-4f0e-9f3c-4c1d2a7e0d5a"
MODULE = "cloud-resources"
INFRASTRUCTURE = "default"
KCP_NAMESPACE = names.KCP_NAMESPACE
SKR_NAMESPACE = names.SKR_NAMESPACE
SCRATCH_NAMESPACE = "klm-demo-floor"
FIELD_MANAGER = "klm-demo"
USER = "demo-user"
