"""The door of the control plane: objects that can't be meant are refused when somebody writes them.

What is checked here is checked again when it is reconciled, so the door may be away: its webhooks are ignored then.
`review` is the API server's question and the answer, `endpoint` takes the one and gives the other, `configuration` is
what makes the API server ask.
"""

from lifecycle_manager.admission.configuration import ADMISSION_WEBHOOKS, webhook_configuration
from lifecycle_manager.admission.endpoint import Objection, Validator, create_app, validator_for

__all__ = ["ADMISSION_WEBHOOKS", "Objection", "Validator", "create_app", "validator_for", "webhook_configuration"]
