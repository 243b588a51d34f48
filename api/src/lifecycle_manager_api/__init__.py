"""The resources of Kyma Lifecycle Manager as typed, immutable objects."""

from lifecycle_manager_api.conditions import Condition, find, set_condition
from lifecycle_manager_api.event import MalformedEvent, Watched, WatchedGvk, WatchEvent, decode_event, encode_event
from lifecycle_manager_api.kyma import Kyma, KymaModule, KymaModuleStatus, KymaSpec, KymaStatus, LastOperation
from lifecycle_manager_api.manifest import Manifest, ManifestSpec, ManifestStatus
from lifecycle_manager_api.meta import LabelSelector, ObjectMeta, OwnerReference
from lifecycle_manager_api.module_config import ModuleConfig, ModuleConfigSpec, ModuleConfigStatus
from lifecycle_manager_api.module_release_meta import ChannelVersion, ModuleReleaseMeta, ModuleReleaseMetaSpec
from lifecycle_manager_api.module_template import ModuleTemplate, ModuleTemplateSpec
from lifecycle_manager_api.raw import raw_object
from lifecycle_manager_api.references import ManagerReference, ObjectReference, PartialMeta, TrackingObject
from lifecycle_manager_api.state import State, aggregate
from lifecycle_manager_api.sync_resource import SyncedObject, SyncResource, SyncResourceSpec, SyncResourceStatus
from lifecycle_manager_api.watcher import Watcher, WatcherSpec, WatcherStatus

__all__ = [
    "ChannelVersion",
    "Condition",
    "Kyma",
    "KymaModule",
    "KymaModuleStatus",
    "KymaSpec",
    "KymaStatus",
    "LabelSelector",
    "LastOperation",
    "MalformedEvent",
    "ManagerReference",
    "Manifest",
    "ManifestSpec",
    "ManifestStatus",
    "ModuleConfig",
    "ModuleConfigSpec",
    "ModuleConfigStatus",
    "ModuleReleaseMeta",
    "ModuleReleaseMetaSpec",
    "ModuleTemplate",
    "ModuleTemplateSpec",
    "ObjectMeta",
    "ObjectReference",
    "OwnerReference",
    "PartialMeta",
    "State",
    "SyncResource",
    "SyncResourceSpec",
    "SyncResourceStatus",
    "SyncedObject",
    "TrackingObject",
    "WatchEvent",
    "Watched",
    "WatchedGvk",
    "Watcher",
    "WatcherSpec",
    "WatcherStatus",
    "aggregate",
    "decode_event",
    "encode_event",
    "find",
    "raw_object",
    "set_condition",
]
