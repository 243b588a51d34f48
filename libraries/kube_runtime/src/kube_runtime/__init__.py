"""A controller runtime for Kubernetes, on asyncio.

A `Client` sends requests to one cluster, an `Informer` caches one kind of object, a `Controller` declares what triggers
its keys and reconciles them, a `Manager` starts and stops all of them, and an `Applier` applies and prunes sets of
objects. Everything runs on one event loop, reads objects as msgspec structs or dicts, and knows no particular kind.

Start with `manager`, then `controller/`, `informer/`, `client/` and `apply/`; `exceptions` draws all errors as a tree.
"""

from typing import TYPE_CHECKING

from kube_runtime.lazy import lazy

if TYPE_CHECKING:
    from kube_runtime.apply import (
        Applier,
        ApplyMemory,
        ApplyResult,
        InventoryEntry,
        KubernetesObject,
        ObjectOutcome,
        Readiness,
        conversion_failure,
        find_object,
        goes_with,
        kind_is_gone,
        may_refuse,
        once_each,
        parse_manifest,
        parse_objects,
        read_kind,
        readiness,
        require_once,
    )
    from kube_runtime.backoff import Backoff
    from kube_runtime.client.client import Client
    from kube_runtime.client.decoding import UNDECODABLE, WatchEvent
    from kube_runtime.client.discovery import RestMapper
    from kube_runtime.client.json_limits import JsonLimits
    from kube_runtime.client.kubeconfig import KubeconfigPolicy
    from kube_runtime.client.nesting import cut_json, require_readable
    from kube_runtime.client.options import ClientOptions
    from kube_runtime.client.reading import Revision
    from kube_runtime.clock import SYSTEM_CLOCK, Clock
    from kube_runtime.controller import (
        MAX_CAUSES_PER_KEY,
        Causes,
        Controller,
        ControllerOptions,
        End,
        Failure,
        Priority,
        QueueShutDown,
        Request,
        Result,
        RetryPolicy,
        Snapshot,
        Stages,
        Step,
        StepFailure,
        TooManySteps,
        WorkQueue,
    )
    from kube_runtime.event_recorder import EventRecorder
    from kube_runtime.exceptions import (
        AddressInvalid,
        AddressUnusable,
        AlreadyExists,
        ApiError,
        BadRequest,
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
        NotServed,
        ObjectUnreadable,
        RequestTooLarge,
        ResponseInvalid,
        ResponseTooLarge,
        ServerUnavailable,
        StatusCause,
        TerminalError,
        TooManyRequests,
        TriggerMistaken,
        Unauthorized,
        UnsupportedMediaType,
        WatchSilent,
    )
    from kube_runtime.informer import Cache, Change, Index, Informer
    from kube_runtime.leases import LeaseSharding
    from kube_runtime.manager import Manager, ManagerOptions
    from kube_runtime.metrics import RuntimeMetrics
    from kube_runtime.parsing import parse_aside
    from kube_runtime.rate_limit import RateLimit, RateLimits
    from kube_runtime.resource import JsonObject, ObjectKey, ObjectList, Resource
    from kube_runtime.running import run
    from kube_runtime.sharding import ALONE, Sharding
    from kube_runtime.yaml_output import TextTooLong, dump_yaml, stored_size
    from kube_runtime.yaml_text import YamlLimits, load_documents, load_yaml

__all__ = [
    "ALONE",
    "MAX_CAUSES_PER_KEY",
    "SYSTEM_CLOCK",
    "UNDECODABLE",
    "AddressInvalid",
    "AddressUnusable",
    "AlreadyExists",
    "ApiError",
    "Applier",
    "ApplyMemory",
    "ApplyResult",
    "Backoff",
    "BadRequest",
    "Cache",
    "Causes",
    "Change",
    "Client",
    "ClientOptions",
    "Clock",
    "ClusterUnreachable",
    "Conflict",
    "Controller",
    "ControllerOptions",
    "End",
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
    "LeaseSharding",
    "Manager",
    "ManagerOptions",
    "ManifestInvalid",
    "MethodNotAllowed",
    "NotFound",
    "NotServed",
    "ObjectKey",
    "ObjectList",
    "ObjectOutcome",
    "ObjectUnreadable",
    "Priority",
    "QueueShutDown",
    "RateLimit",
    "RateLimits",
    "Readiness",
    "Request",
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
    "Snapshot",
    "Stages",
    "StatusCause",
    "Step",
    "StepFailure",
    "TerminalError",
    "TextTooLong",
    "TooManyRequests",
    "TooManySteps",
    "TriggerMistaken",
    "Unauthorized",
    "UnsupportedMediaType",
    "WatchEvent",
    "WatchSilent",
    "WorkQueue",
    "YamlLimits",
    "conversion_failure",
    "cut_json",
    "dump_yaml",
    "find_object",
    "goes_with",
    "kind_is_gone",
    "load_documents",
    "load_yaml",
    "may_refuse",
    "once_each",
    "parse_aside",
    "parse_manifest",
    "parse_objects",
    "read_kind",
    "readiness",
    "require_once",
    "require_readable",
    "run",
    "stored_size",
]

__getattr__ = lazy(
    __name__,
    {
        "apply": (
            "Applier ApplyMemory ApplyResult InventoryEntry KubernetesObject ObjectOutcome Readiness "
            "find_object goes_with kind_is_gone once_each parse_manifest conversion_failure may_refuse "
            "parse_objects read_kind readiness require_once"
        ),
        "backoff": "Backoff",
        "client.client": "Client",
        "client.decoding": "UNDECODABLE WatchEvent",
        "client.discovery": "RestMapper",
        "client.json_limits": "JsonLimits",
        "client.kubeconfig": "KubeconfigPolicy",
        "client.nesting": "cut_json require_readable",
        "client.options": "ClientOptions",
        "client.reading": "Revision",
        "clock": "SYSTEM_CLOCK Clock",
        "controller": (
            "MAX_CAUSES_PER_KEY Causes Controller ControllerOptions End Failure Priority QueueShutDown Request "
            "Result RetryPolicy Snapshot Stages Step StepFailure TooManySteps WorkQueue"
        ),
        "event_recorder": "EventRecorder",
        "exceptions": (
            "AddressInvalid AddressUnusable AlreadyExists ApiError BadRequest ClusterUnreachable Conflict "
            "Forbidden Gone Invalid KindUnknown KubeconfigInvalid KubeconfigRefused KubeError ManifestInvalid "
            "MethodNotAllowed NotFound NotServed ObjectUnreadable RequestTooLarge ResponseInvalid "
            "ResponseTooLarge ServerUnavailable StatusCause TerminalError TooManyRequests TriggerMistaken "
            "Unauthorized UnsupportedMediaType WatchSilent"
        ),
        "informer": "Cache Change Index Informer",
        "leases": "LeaseSharding",
        "manager": "Manager ManagerOptions",
        "metrics": "RuntimeMetrics",
        "parsing": "parse_aside",
        "rate_limit": "RateLimit RateLimits",
        "resource": "JsonObject ObjectKey ObjectList Resource",
        "running": "run",
        "sharding": "ALONE Sharding",
        "yaml_output": "TextTooLong dump_yaml stored_size",
        "yaml_text": "YamlLimits load_documents load_yaml",
    },
)


def __dir__() -> list[str]:
    return [*__all__, *globals()]
