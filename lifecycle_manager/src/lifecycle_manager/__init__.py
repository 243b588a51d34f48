"""The Lifecycle Manager: keeps the modules of every user cluster as their users want them.

One process in the control plane (KCP) looks after thousands of user clusters (SKRs) and is the only thing
that ever touches them. Each folder here looks after one thing, and all of them read the same way:
`observe` gathers one snapshot, `plan` is a pure function from it to actions and a status, `act` carries the
actions out, and `reconciler` ties the three to a key in a queue. The folders know nothing of each other;
they meet in the resources that they read and write.

    skr            access to user clusters: credentials, connections, what an event promised about a read
    kyma           the Kyma CR on both sides, and which modules it asks for
    module_config  a user's Module CR, read from the SKR and written to KCP for its Module Manager
    sync_resource  what a Module Manager wants in the SKR, applied and pruned there
    skr_webhook    the Watcher in the SKR: its certificates, its Deployment, the admission webhook
    events         the HTTP endpoint that the Watchers send their signed events to

Start reading at `app`, the one place where they are wired together.
"""
