"""The client of one API server.

Start with `client.Client`, the verbs. Below it: `transport` (one pooled session, limits, retries), `decoding` (bytes to
typed objects), `discovery` (kinds to resources), `kubeconfig` (where the server is and what a kubeconfig may ask for),
`credentials`, `plugins` and `tls` (who we are).
"""

from kube_runtime.client.client import Applied, Client, Revision
from kube_runtime.client.decoding import WatchEvent
from kube_runtime.client.discovery import RestMapper
from kube_runtime.client.kubeconfig import Connection, KubeconfigPolicy
from kube_runtime.client.limits import TokenBucket
from kube_runtime.client.options import ClientOptions

__all__ = [
    "Applied",
    "Client",
    "ClientOptions",
    "Connection",
    "KubeconfigPolicy",
    "RestMapper",
    "Revision",
    "TokenBucket",
    "WatchEvent",
]
