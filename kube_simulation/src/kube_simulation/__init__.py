"""A simulated Kubernetes API server: thousands of clusters in one process, for scale, speed and determinism.

It speaks the protocol over a real socket, so that clients, informers and appliers run against it as they are. What it
does that they rely on is held against a real server by one suite of tests. It is no place to run Pods in, and knows no
users: everybody may do everything.

Start with `server`, which serves `cluster`s. A request (`requests`) is answered by `reading`, `writing` and `watching`
from the `store`, which has the bytes of the objects and their history. `kinds` and `schemas` say what a kind looks
like, `validation`, `fields`, `merging` and `ownership` what follows from that for a write, `lifecycle` what the cluster
does by itself. `rules` make things go wrong on purpose, `records` remember what was asked.
"""

from kube_simulation.cluster import ClusterSettings, SimulatedCluster
from kube_simulation.records import Record
from kube_simulation.refusals import Refused
from kube_simulation.requests import Answer, ApiRequest, ConnectionDropped
from kube_simulation.rules import (
    Delay,
    Drop,
    Freeze,
    HideUntilOverwritten,
    NeverAnswer,
    Refuse,
    Reorder,
    Rule,
    every_request,
    is_read,
    is_write,
)
from kube_simulation.server import Simulation, serve_simulation
from kube_simulation.store import Change

__all__ = [
    "Answer",
    "ApiRequest",
    "Change",
    "ClusterSettings",
    "ConnectionDropped",
    "Delay",
    "Drop",
    "Freeze",
    "HideUntilOverwritten",
    "NeverAnswer",
    "Record",
    "Refuse",
    "Refused",
    "Reorder",
    "Rule",
    "SimulatedCluster",
    "Simulation",
    "every_request",
    "is_read",
    "is_write",
    "serve_simulation",
]
