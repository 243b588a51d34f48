"""Reasons of a Kyma's conditions, modules and Events. Those that other domains read are in `contract.conditions`."""

REACHABLE = "Reachable"

MODULES_READY = "ModulesReady"
MODULES_NOT_READY = "ModulesNotReady"
REMOVING = "Removing"
WATCHER_PENDING = "WatcherPending"
CATALOG_PENDING = "CatalogPending"
PULL_SECRET_MISSING = "ImagePullSecretMissing"  # noqa: S105 - a reason
CRDS_PENDING = "Syncing"

READY = "Ready"
DELETING = "Deleting"

MODULE_UNMANAGED = "ModuleUnmanaged"
MODULE_MANDATORY = "ModuleMandatory"
MODULE_NOT_FOUND = "ModuleNotFound"
CHANNEL_NOT_FOUND = "ChannelNotFound"
MODULE_TEMPLATE_NOT_FOUND = "ModuleTemplateNotFound"
DESCRIPTOR_UNREADABLE = "DescriptorUnreadable"
DESCRIPTOR_UNVERIFIED = "DescriptorUnverified"
DOWNGRADE_NOT_ALLOWED = "DowngradeNotAllowed"
ROLLOUT_PENDING = "RolloutPending"
WAITS_FOR_USER = "WaitsForUser"
WAITS_FOR_MAINTENANCE = "WaitsForMaintenance"

INSTALLING = "Installing"
UPDATING = "Updating"
NOTHING_TO_INSTALL = "NothingToInstall"

KYMA_CREATED_AGAIN = "KymaCreatedAgain"
MODULE_NOT_WRITTEN = "ModuleNotWritten"
MODULE_READY = "ModuleReady"
MODULE_REMOVED = "ModuleRemoved"
MORE_MODULES = "MoreModules"
