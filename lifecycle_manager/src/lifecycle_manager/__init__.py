"""The Lifecycle Manager: keeps the modules of every user cluster in the state that its users asked for.

One process in the control plane (KCP), or several replicas of it, manages thousands of user clusters (SKRs), and is the
only component that accesses them. A folder that reconciles a resource has the same files as every other one:
`controller` has the triggers and what a reconcile does, `snapshot` reads one immutable value, `rules` decides by pure
functions, `apply` has the requests, and `status` computes what users see. These domains do not import each other; they
meet in resources, and in the signals of `contract.signals`.

    kyma                 the Kyma CR on both sides, the versions of its modules, its Manifests
    module_installation  a Manifest: its objects in the SKR, the default Module CR, readiness, removal
    module_config        a user's Module CR, read from the SKR and written to KCP for its Module Manager
    sync_resource        the objects that a Module Manager wants in the SKR
    catalog_sync         the module catalog of an SKR
    mandatory_modules    the Manifests of mandatory modules
    skr_webhook          the Watcher of an SKR
    watcher_crs          the status of Watcher CRs

Below them are `module_catalog` (which modules are offered), `rollout` (when a version is installed), `object_set`
(apply, prune and own a set of objects), `watcher_certificates` (the CAs, and the certificate of each Watcher) and `skr`
(access to SKRs). Below those are `process` (metrics, servers: what the process needs whatever it manages) and
`contract` (what several domains share). Beside them are `events` (the endpoint for signed events), `admission`
(webhooks of KCP) and `replicas` (events for Kymas of other replicas).

Start reading in `app`, which composes all of them, and then in the `controller` of one domain.
"""
