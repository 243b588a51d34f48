"""Validating webhooks of KCP: invalid objects are refused when they are written.

Every check is repeated when the object is reconciled, so the webhooks may be unavailable; they are ignored then.
`endpoint` answers the API server, and `configuration` is the ValidatingWebhookConfiguration.
"""

from lifecycle_manager.admission.configuration import ADMISSION_WEBHOOKS, webhook_configuration
from lifecycle_manager.admission.endpoint import Validator, create_app, validator_for

__all__ = ["ADMISSION_WEBHOOKS", "Validator", "create_app", "validator_for", "webhook_configuration"]
