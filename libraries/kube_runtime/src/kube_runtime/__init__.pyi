# isort: skip_file
# What the package offers: type checkers read it, and `kube_runtime.lazy` does at run time.
from kube_runtime.apply.applier import Applier as Applier
from kube_runtime.apply.contents import goes_with as goes_with
from kube_runtime.apply.existence import (
    find_object as find_object,
    kind_is_gone as kind_is_gone,
    read_kind as read_kind,
)
from kube_runtime.apply.memory import ApplyMemory as ApplyMemory
from kube_runtime.apply.objects import (
    InventoryEntry as InventoryEntry,
    KubernetesObject as KubernetesObject,
    once_each as once_each,
    parse_manifest as parse_manifest,
    parse_objects as parse_objects,
    require_once as require_once,
)
from kube_runtime.apply.order import may_refuse as may_refuse
from kube_runtime.apply.readiness import Readiness as Readiness, readiness as readiness
from kube_runtime.apply.refusals import conversion_failure as conversion_failure
from kube_runtime.apply.results import (
    ApplyResult as ApplyResult,
    NoteExisting as NoteExisting,
    ObjectOutcome as ObjectOutcome,
)
from kube_runtime.backoff import Backoff as Backoff
from kube_runtime.client.client import Client as Client
from kube_runtime.client.decoding import UNDECODABLE as UNDECODABLE, WatchEvent as WatchEvent
from kube_runtime.client.json_limits import JsonLimits as JsonLimits
from kube_runtime.client.kubeconfig import KubeconfigPolicy as KubeconfigPolicy
from kube_runtime.client.nesting import require_readable as require_readable
from kube_runtime.client.options import ClientOptions as ClientOptions
from kube_runtime.client.reading import Revision as Revision
from kube_runtime.clock import SYSTEM_CLOCK as SYSTEM_CLOCK, Clock as Clock
from kube_runtime.controller.causes import MAX_CAUSES_PER_KEY as MAX_CAUSES_PER_KEY, Causes as Causes
from kube_runtime.controller.controller import Controller as Controller
from kube_runtime.controller.options import ControllerOptions as ControllerOptions
from kube_runtime.controller.priority import Priority as Priority
from kube_runtime.controller.queue import QueueShutDown as QueueShutDown, WorkQueue as WorkQueue
from kube_runtime.controller.retries import RetryPolicy as RetryPolicy
from kube_runtime.controller.steps import (
    End as End,
    Request as Request,
    Step as Step,
    TooManySteps as TooManySteps,
)
from kube_runtime.controller.workers import Result as Result
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
from kube_runtime.informer import Cache as Cache, Change as Change, Index as Index, Informer as Informer
from kube_runtime.leases.lease_sharding import LeaseSharding as LeaseSharding
from kube_runtime.manager import Manager as Manager, ManagerOptions as ManagerOptions
from kube_runtime.metrics import RuntimeMetrics as RuntimeMetrics
from kube_runtime.parsing import parse_aside as parse_aside
from kube_runtime.rate_limit import RateLimit as RateLimit, RateLimits as RateLimits
from kube_runtime.resource import (
    JsonObject as JsonObject,
    ObjectKey as ObjectKey,
    ObjectList as ObjectList,
    Resource as Resource,
)
from kube_runtime.running import run as run
from kube_runtime.sharding import ALONE as ALONE, Sharding as Sharding
from kube_runtime.yaml_output import TextTooLong as TextTooLong, dump_yaml as dump_yaml, stored_size as stored_size
from kube_runtime.yaml_text import YamlLimits as YamlLimits, load_documents as load_documents, load_yaml as load_yaml

__all__: list[str]
