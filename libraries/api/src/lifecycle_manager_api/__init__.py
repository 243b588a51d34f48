"""The resources of Kyma Lifecycle Manager as typed, immutable objects.

Start with `decode` and `as_document`. Modules that not everybody needs: `crds` has the CustomResourceDefinitions,
`policy_checks` checks objects against a ModulePolicy, and `pod_security` Pods against the Pod Security Standards.
Labels, annotations and finalizers are in `names`.
"""

from kube_crds import Condition, ConditionStatus, OwnerReference, find, set_condition
from lifecycle_manager_api import names
from lifecycle_manager_api.conditions import LastOperation
from lifecycle_manager_api.documents import NotDecodable, as_document, decode, decode_list, encode
from lifecycle_manager_api.event import MalformedEvent, Watched, WatchedGvk, WatchEvent, decode_event, encode_event
from lifecycle_manager_api.kinds import ApiObject
from lifecycle_manager_api.kyma import (
    CustomResourcePolicy,
    Kyma,
    KymaModule,
    KymaModuleStatus,
    KymaSpec,
    KymaStatus,
    SkrRecords,
)
from lifecycle_manager_api.manifest import (
    ImageSpec,
    InstallInfo,
    Manifest,
    ManifestSpec,
    ManifestStatus,
    ModuleRelease,
    ReadyVersion,
)
from lifecycle_manager_api.meta import ListMeta, ObjectMeta, ResourceList, boolean
from lifecycle_manager_api.module_config import ModuleConfig, ModuleConfigSpec, ModuleConfigStatus
from lifecycle_manager_api.module_policy import (
    ClusterResource,
    KindRule,
    ModuleCrRule,
    ModulePolicy,
    ModulePolicySpec,
    NamespacedResources,
    PodSecurityLevel,
)
from lifecycle_manager_api.module_release_meta import (
    ChannelVersion,
    MandatoryVersion,
    ModuleReleaseMeta,
    ModuleReleaseMetaSpec,
)
from lifecycle_manager_api.module_rollout import (
    FailedCluster,
    ModuleRollout,
    ModuleRolloutSpec,
    ModuleRolloutStatus,
    RolloutPhase,
    UnderWay,
    WaveApproval,
    WaveStatus,
)
from lifecycle_manager_api.module_template import (
    CustomStateCheck,
    Icon,
    ModuleInfo,
    ModuleResource,
    ModuleTemplate,
    ModuleTemplateSpec,
    ModuleTemplateStatus,
    PinnedDescriptor,
    PinnedLink,
)
from lifecycle_manager_api.naming import joined_name, split_template_name, template_name
from lifecycle_manager_api.raw import raw_object
from lifecycle_manager_api.references import (
    GroupVersionKind,
    ManagerReference,
    PartialMeta,
    ResourceReference,
    SyncedReference,
    TrackingObject,
)
from lifecycle_manager_api.rollout_strategy import RolloutStrategy, RolloutStrategySpec, Wave, WaveRules
from lifecycle_manager_api.selectors import KymaSelector, LabelSelector, LabelSelectorRequirement
from lifecycle_manager_api.state import State, aggregate
from lifecycle_manager_api.sync_resource import SyncedObject, SyncResource, SyncResourceSpec, SyncResourceStatus
from lifecycle_manager_api.versions import InvalidVersion, Version
from lifecycle_manager_api.watcher import Gateway, ServiceInfo, WatchedResource, Watcher, WatcherSpec, WatcherStatus

__all__ = [
    "ApiObject",
    "ChannelVersion",
    "ClusterResource",
    "Condition",
    "ConditionStatus",
    "CustomResourcePolicy",
    "CustomStateCheck",
    "FailedCluster",
    "Gateway",
    "GroupVersionKind",
    "Icon",
    "ImageSpec",
    "InstallInfo",
    "InvalidVersion",
    "KindRule",
    "Kyma",
    "KymaModule",
    "KymaModuleStatus",
    "KymaSelector",
    "KymaSpec",
    "KymaStatus",
    "LabelSelector",
    "LabelSelectorRequirement",
    "LastOperation",
    "ListMeta",
    "MalformedEvent",
    "ManagerReference",
    "MandatoryVersion",
    "Manifest",
    "ManifestSpec",
    "ManifestStatus",
    "ModuleConfig",
    "ModuleConfigSpec",
    "ModuleConfigStatus",
    "ModuleCrRule",
    "ModuleInfo",
    "ModulePolicy",
    "ModulePolicySpec",
    "ModuleRelease",
    "ModuleReleaseMeta",
    "ModuleReleaseMetaSpec",
    "ModuleResource",
    "ModuleRollout",
    "ModuleRolloutSpec",
    "ModuleRolloutStatus",
    "ModuleTemplate",
    "ModuleTemplateSpec",
    "ModuleTemplateStatus",
    "NamespacedResources",
    "NotDecodable",
    "ObjectMeta",
    "OwnerReference",
    "PartialMeta",
    "PinnedDescriptor",
    "PinnedLink",
    "PodSecurityLevel",
    "ReadyVersion",
    "ResourceList",
    "ResourceReference",
    "RolloutPhase",
    "RolloutStrategy",
    "RolloutStrategySpec",
    "ServiceInfo",
    "SkrRecords",
    "State",
    "SyncResource",
    "SyncResourceSpec",
    "SyncResourceStatus",
    "SyncedObject",
    "SyncedReference",
    "TrackingObject",
    "UnderWay",
    "Version",
    "WatchEvent",
    "Watched",
    "WatchedGvk",
    "WatchedResource",
    "Watcher",
    "WatcherSpec",
    "WatcherStatus",
    "Wave",
    "WaveApproval",
    "WaveRules",
    "WaveStatus",
    "aggregate",
    "as_document",
    "boolean",
    "decode",
    "decode_event",
    "decode_list",
    "encode",
    "encode_event",
    "find",
    "joined_name",
    "names",
    "raw_object",
    "set_condition",
    "split_template_name",
    "template_name",
]
