"""A controller runtime for Kubernetes, on asyncio.

A `Client` sends requests to one cluster, an `Informer` caches one kind of object, a `Controller` declares what triggers
its keys and reconciles them, a `Manager` starts and stops all of them, and an `Applier` applies and prunes sets of
objects. Everything runs on one event loop, reads objects as msgspec structs or dicts, and knows no particular kind.

Start with `manager`, then `controller/`, `informer/`, `client/` and `apply/`; `exceptions` draws all errors as a tree.
"""

from typing import TYPE_CHECKING

from kube_runtime.lazy import lazy

if TYPE_CHECKING:  # `X as X` offers a name to type checkers
    # isort: off
    from kube_runtime.apply import (
        Applier as Applier,
        ApplyMemory as ApplyMemory,
        ApplyResult as ApplyResult,
        InventoryEntry as InventoryEntry,
        KubernetesObject as KubernetesObject,
        NoteExisting as NoteExisting,
        ObjectOutcome as ObjectOutcome,
        Readiness as Readiness,
        conversion_failure as conversion_failure,
        find_object as find_object,
        goes_with as goes_with,
        kind_is_gone as kind_is_gone,
        may_refuse as may_refuse,
        once_each as once_each,
        parse_manifest as parse_manifest,
        parse_objects as parse_objects,
        read_kind as read_kind,
        readiness as readiness,
        require_once as require_once,
    )
    from kube_runtime.backoff import Backoff as Backoff
    from kube_runtime.client.client import Client as Client
    from kube_runtime.client.decoding import (
        UNDECODABLE as UNDECODABLE,
        WatchEvent as WatchEvent,
    )
    from kube_runtime.client.json_limits import JsonLimits as JsonLimits
    from kube_runtime.client.kubeconfig import KubeconfigPolicy as KubeconfigPolicy
    from kube_runtime.client.nesting import require_readable as require_readable
    from kube_runtime.client.options import ClientOptions as ClientOptions
    from kube_runtime.client.reading import Revision as Revision
    from kube_runtime.clock import (
        SYSTEM_CLOCK as SYSTEM_CLOCK,
        Clock as Clock,
    )
    from kube_runtime.controller import (
        MAX_CAUSES_PER_KEY as MAX_CAUSES_PER_KEY,
        Causes as Causes,
        Controller as Controller,
        ControllerOptions as ControllerOptions,
        End as End,
        Priority as Priority,
        QueueShutDown as QueueShutDown,
        Request as Request,
        Result as Result,
        RetryPolicy as RetryPolicy,
        Step as Step,
        TooManySteps as TooManySteps,
        WorkQueue as WorkQueue,
    )
    from kube_runtime.event_recorder import EventRecorder as EventRecorder
    from kube_runtime.exceptions import (
        AddressInvalid as AddressInvalid,
        AddressUnusable as AddressUnusable,
        AlreadyExists as AlreadyExists,
        ApiError as ApiError,
        BadRequest as BadRequest,
        ClusterUnreachable as ClusterUnreachable,
        Conflict as Conflict,
        Forbidden as Forbidden,
        Gone as Gone,
        Invalid as Invalid,
        KindUnknown as KindUnknown,
        KubeconfigInvalid as KubeconfigInvalid,
        KubeconfigRefused as KubeconfigRefused,
        KubeError as KubeError,
        ManifestInvalid as ManifestInvalid,
        MethodNotAllowed as MethodNotAllowed,
        NotFound as NotFound,
        NotServed as NotServed,
        ObjectUnreadable as ObjectUnreadable,
        RequestTooLarge as RequestTooLarge,
        ResponseInvalid as ResponseInvalid,
        ResponseTooLarge as ResponseTooLarge,
        ServerUnavailable as ServerUnavailable,
        StatusCause as StatusCause,
        TerminalError as TerminalError,
        TooManyRequests as TooManyRequests,
        TriggerMistaken as TriggerMistaken,
        Unauthorized as Unauthorized,
    )
    from kube_runtime.informer import (
        Cache as Cache,
        Change as Change,
        Index as Index,
        Informer as Informer,
    )
    from kube_runtime.leases.lease_sharding import LeaseSharding as LeaseSharding
    from kube_runtime.manager import (
        Manager as Manager,
        ManagerOptions as ManagerOptions,
    )
    from kube_runtime.metrics import RuntimeMetrics as RuntimeMetrics
    from kube_runtime.parsing import parse_aside as parse_aside
    from kube_runtime.rate_limit import (
        RateLimit as RateLimit,
        RateLimits as RateLimits,
    )
    from kube_runtime.resource import (
        JsonObject as JsonObject,
        ObjectKey as ObjectKey,
        ObjectList as ObjectList,
        Resource as Resource,
    )
    from kube_runtime.running import run as run
    from kube_runtime.sharding import (
        ALONE as ALONE,
        Sharding as Sharding,
    )
    from kube_runtime.yaml_output import (
        TextTooLong as TextTooLong,
        dump_yaml as dump_yaml,
        stored_size as stored_size,
    )
    from kube_runtime.yaml_text import (
        YamlLimits as YamlLimits,
        load_documents as load_documents,
        load_yaml as load_yaml,
    )
    # isort: on

_MODULES = {
    "apply": (
        "Applier ApplyMemory ApplyResult InventoryEntry KubernetesObject NoteExisting ObjectOutcome Readiness "
        "find_object goes_with kind_is_gone once_each parse_manifest conversion_failure may_refuse "
        "parse_objects read_kind readiness require_once"
    ),
    "backoff": "Backoff",
    "client.client": "Client",
    "client.decoding": "UNDECODABLE WatchEvent",
    "client.json_limits": "JsonLimits",
    "client.kubeconfig": "KubeconfigPolicy",
    "client.nesting": "require_readable",
    "client.options": "ClientOptions",
    "client.reading": "Revision",
    "clock": "SYSTEM_CLOCK Clock",
    "controller": (
        "MAX_CAUSES_PER_KEY Causes Controller ControllerOptions End Priority QueueShutDown Request "
        "Result RetryPolicy Step TooManySteps WorkQueue"
    ),
    "event_recorder": "EventRecorder",
    "exceptions": (
        "AddressInvalid AddressUnusable AlreadyExists ApiError BadRequest ClusterUnreachable Conflict "
        "Forbidden Gone Invalid KindUnknown KubeconfigInvalid KubeconfigRefused KubeError ManifestInvalid "
        "MethodNotAllowed NotFound NotServed ObjectUnreadable RequestTooLarge ResponseInvalid "
        "ResponseTooLarge ServerUnavailable StatusCause TerminalError TooManyRequests TriggerMistaken "
        "Unauthorized"
    ),
    "informer": "Cache Change Index Informer",
    "leases.lease_sharding": "LeaseSharding",
    "manager": "Manager ManagerOptions",
    "metrics": "RuntimeMetrics",
    "parsing": "parse_aside",
    "rate_limit": "RateLimit RateLimits",
    "resource": "JsonObject ObjectKey ObjectList Resource",
    "running": "run",
    "sharding": "ALONE Sharding",
    "yaml_output": "TextTooLong dump_yaml stored_size",
    "yaml_text": "YamlLimits load_documents load_yaml",
}

__getattr__ = lazy(__name__, _MODULES)
__all__ = [name for names in _MODULES.values() for name in names.split()]


def __dir__() -> list[str]:
    return [*__all__, *globals()]
