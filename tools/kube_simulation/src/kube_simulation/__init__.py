"""A simulated Kubernetes API server: thousands of clusters in one process, for scale, speed and determinism.

It serves the protocol over a real socket, so that clients, informers and appliers run against it unchanged. A suite of
conformance tests compares it with a real server. It runs no Pods and has no users: every request is authorized.

Start with `server`, which serves `cluster`s. A request (`requests`) is answered by `reading`, `writing` and `watching`
from the `store`, which has the bytes of the objects and their history. `kinds` and `schemas` say what a kind looks
like, `validation`, `fields`, `merging` and `ownership` what follows from that for a write, `lifecycle` what the cluster
does by itself. `rules` inject faults, `records` keep the last requests.
"""

from kube_simulation.cluster import ClusterSettings, SimulatedCluster
from kube_simulation.records import RequestRecord
from kube_simulation.refusals import Refused
from kube_simulation.requests import Answer, ApiRequest, ConnectionDropped
from kube_simulation.rules import (
    Delay,
    Drop,
    Freeze,
    NeverAnswer,
    Refuse,
    Rule,
    every_request,
    is_read,
    is_write,
)
from kube_simulation.server import Simulation, serve_simulation
from kube_simulation.store import StoredChange

__all__ = [
    "Answer",
    "ApiRequest",
    "ClusterSettings",
    "ConnectionDropped",
    "Delay",
    "Drop",
    "Freeze",
    "NeverAnswer",
    "Refuse",
    "Refused",
    "RequestRecord",
    "Rule",
    "SimulatedCluster",
    "Simulation",
    "StoredChange",
    "every_request",
    "is_read",
    "is_write",
    "serve_simulation",
]
