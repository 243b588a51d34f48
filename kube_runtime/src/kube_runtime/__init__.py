"""What a Kubernetes controller stands on, for asyncio.

A `Client` speaks to one cluster, an `Informer` keeps a cache of one kind of object as the API server has it, a
`WorkQueue` says which keys need work, a `Controller` has them reconciled, and an `Applier` brings objects into a
cluster and takes them out again. Everything runs on one event loop, reads objects as msgspec structs or dicts, and
knows nothing of any particular kind.

Read `client/`, `informer/`, `controller/` and `apply/` in this order; `exceptions` shows everything that can go wrong.
"""

from kube_runtime.apply import (
    Applier,
    ApplyResult,
    InventoryEntry,
    KubernetesObject,
    ObjectOutcome,
    Readiness,
    parse_objects,
    readiness,
)
from kube_runtime.backoff import Backoff
from kube_runtime.client import Client, ClientOptions, KubeconfigPolicy, RestMapper, Revision, WatchEvent
from kube_runtime.controller import Controller, Failure, Pace, Priority, QueueShutDown, Result, RetryPolicy, WorkQueue
from kube_runtime.event_recorder import EventRecorder
from kube_runtime.exceptions import (
    AlreadyExists,
    ApiError,
    BadRequest,
    Cause,
    ClusterUnreachable,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    KindUnknown,
    KubeconfigInvalid,
    KubeconfigRefused,
    KubeError,
    ManifestInvalid,
    MethodNotAllowed,
    NotFound,
    ObjectUnreadable,
    RequestTooLarge,
    ResponseInvalid,
    ServerUnavailable,
    TerminalError,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    WatchSilent,
)
from kube_runtime.informer import Cache, Change, Informer
from kube_runtime.metrics import RuntimeMetrics
from kube_runtime.resource import JsonObject, ObjectKey, ObjectList, Resource
from kube_runtime.yaml_output import dump_yaml
from kube_runtime.yaml_text import YamlLimits, load_documents, load_yaml

__all__ = [
    "AlreadyExists",
    "ApiError",
    "Applier",
    "ApplyResult",
    "Backoff",
    "BadRequest",
    "Cache",
    "Cause",
    "Change",
    "Client",
    "ClientOptions",
    "ClusterUnreachable",
    "Conflict",
    "Controller",
    "EventRecorder",
    "Failure",
    "Forbidden",
    "Gone",
    "Informer",
    "Invalid",
    "InventoryEntry",
    "JsonObject",
    "KindUnknown",
    "KubeError",
    "KubeconfigInvalid",
    "KubeconfigPolicy",
    "KubeconfigRefused",
    "KubernetesObject",
    "ManifestInvalid",
    "MethodNotAllowed",
    "NotFound",
    "ObjectKey",
    "ObjectList",
    "ObjectOutcome",
    "ObjectUnreadable",
    "Pace",
    "Priority",
    "QueueShutDown",
    "Readiness",
    "RequestTooLarge",
    "Resource",
    "ResponseInvalid",
    "RestMapper",
    "Result",
    "RetryPolicy",
    "Revision",
    "RuntimeMetrics",
    "ServerUnavailable",
    "TerminalError",
    "TooManyRequests",
    "Unauthorized",
    "UnsupportedMediaType",
    "WatchEvent",
    "WatchSilent",
    "WorkQueue",
    "YamlLimits",
    "dump_yaml",
    "load_documents",
    "load_yaml",
    "parse_objects",
    "readiness",
]
