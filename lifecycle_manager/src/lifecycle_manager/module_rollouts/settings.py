"""The options of the notifications of rollouts."""

from dataclasses import dataclass

from lifecycle_manager.contract.options import SecretName, option


@dataclass(frozen=True, slots=True)
class NotificationSettings:
    """Where notifications go. Without a Secret none is sent."""

    secret: SecretName = option(
        "",
        "rollout-webhook-secret",
        "Secret in kcp-system with url and key of the webhook that gets the states of rollouts; default: none",
    )
    allows_http: bool = option(False, "rollout-webhook-allow-http", "let the URL of that webhook begin with http://")
