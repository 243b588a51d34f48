"""Whether the module catalog is in a cluster, as its Kyma's `ModuleCatalog` condition says it."""

CONDITION = "ModuleCatalog"
SYNCED = "Synced"
FAILED = "CatalogSyncFailed"
