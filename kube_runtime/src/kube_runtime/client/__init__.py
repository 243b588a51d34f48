"""The client of one API server.

Start with `client.Client`, the verbs. Below it: `transport` (one pooled session, limits, retries), `json_limits`
(bounds on bytes before they are decoded), `decoding` (bytes to typed objects), `discovery` (kinds to resources),
`kubeconfig` (where the server is and what a kubeconfig may ask for), `credentials`, `plugins` and `tls` (who we are).
"""

from kube_runtime.client.client import Applied, Client, Revision
from kube_runtime.client.decoding import UNDECODABLE, WatchEvent
from kube_runtime.client.discovery import RestMapper
from kube_runtime.client.json_limits import JsonLimits, check_json, check_json_aside
from kube_runtime.client.kubeconfig import Connection, KubeconfigPolicy
from kube_runtime.client.limits import LargeAnswers, TokenBucket
from kube_runtime.client.nesting import cut_json, require_readable
from kube_runtime.client.options import ClientOptions

__all__ = [
    "UNDECODABLE",
    "Applied",
    "Client",
    "ClientOptions",
    "Connection",
    "JsonLimits",
    "KubeconfigPolicy",
    "LargeAnswers",
    "RestMapper",
    "Revision",
    "TokenBucket",
    "WatchEvent",
    "check_json",
    "check_json_aside",
    "cut_json",
    "require_readable",
]
