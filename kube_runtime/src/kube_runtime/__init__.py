"""A controller runtime for Kubernetes, on asyncio.

A `Client` sends requests to one cluster, an `Informer` caches one kind of object, a `Controller` declares what triggers
its keys and reconciles them, a `Manager` starts and stops all of them, and an `Applier` applies and prunes sets of
objects. Everything runs on one event loop, reads objects as msgspec structs or dicts, and knows no particular kind.

Start with `manager`, then `controller/`, `informer/`, `client/` and `apply/`; `exceptions` draws all errors as a tree.
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
from kube_runtime.client import Client, ClientOptions, JsonLimits, KubeconfigPolicy, RestMapper, Revision, WatchEvent
from kube_runtime.clock import SYSTEM_CLOCK, Clock
from kube_runtime.controller import (
    MAX_CAUSES_PER_KEY,
    Causes,
    Controller,
    Failure,
    Pace,
    Priority,
    QueueShutDown,
    Result,
    RetryPolicy,
    WorkQueue,
)
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
    ResponseTooLarge,
    ServerUnavailable,
    TerminalError,
    TooManyRequests,
    Unauthorized,
    UnsupportedMediaType,
    WatchSilent,
)
from kube_runtime.informer import Cache, Change, Index, Informer
from kube_runtime.manager import Manager
from kube_runtime.metrics import RuntimeMetrics
from kube_runtime.parsing import parse_aside
from kube_runtime.resource import JsonObject, ObjectKey, ObjectList, Resource
from kube_runtime.sharding import ALONE, Sharding
from kube_runtime.steps import TooManySteps, run_steps
from kube_runtime.yaml_output import TextTooLong, dump_yaml
from kube_runtime.yaml_text import YamlLimits, load_documents, load_yaml

__all__ = [
    "ALONE",
    "MAX_CAUSES_PER_KEY",
    "SYSTEM_CLOCK",
    "AlreadyExists",
    "ApiError",
    "Applier",
    "ApplyResult",
    "Backoff",
    "BadRequest",
    "Cache",
    "Cause",
    "Causes",
    "Change",
    "Client",
    "ClientOptions",
    "Clock",
    "ClusterUnreachable",
    "Conflict",
    "Controller",
    "EventRecorder",
    "Failure",
    "Forbidden",
    "Gone",
    "Index",
    "Informer",
    "Invalid",
    "InventoryEntry",
    "JsonLimits",
    "JsonObject",
    "KindUnknown",
    "KubeError",
    "KubeconfigInvalid",
    "KubeconfigPolicy",
    "KubeconfigRefused",
    "KubernetesObject",
    "Manager",
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
    "ResponseTooLarge",
    "RestMapper",
    "Result",
    "RetryPolicy",
    "Revision",
    "RuntimeMetrics",
    "ServerUnavailable",
    "Sharding",
    "TerminalError",
    "TextTooLong",
    "TooManyRequests",
    "TooManySteps",
    "Unauthorized",
    "UnsupportedMediaType",
    "WatchEvent",
    "WatchSilent",
    "WorkQueue",
    "YamlLimits",
    "dump_yaml",
    "load_documents",
    "load_yaml",
    "parse_aside",
    "parse_objects",
    "readiness",
    "run_steps",
]
