"""A set of objects in an SKR on behalf of one resource in KCP.

- `engine`: what a reconcile does with a set, in which order; `apply` sends its requests to the SKR
- `rules`: the rules that all owners share: what may be in a set, and what is pruned
- `snapshot`, `state`: what the rules decide on, and what a process remembers: announced changes, repairs, the inventory
- `owner_writes`: the resource in KCP: its intent, its finalizer, its status and Events
- `inventory`: the objects that the resource's status names
- `ownership`: which of several sets has an object: first come (`Claim`) or shared and handed over (`Holder`)
- `others`: the other sets of the same SKR
- `protected`: the Lifecycle Manager's own objects; `policy`: what ModulePolicies allow
- `workloads`: the readiness of workloads, with what their Pods say
- `reporting`: what statuses and Events of such resources have in common

`module_installation` and `sync_resource` decide between the requests of the engine; each adds which objects it wants,
and its status. The objects of the Watcher and of the catalog have no resource of their own in KCP: `skr_webhook` uses
`apply` alone, as `OwnObjects`, and so does `catalog_sync` for their removal.
"""
