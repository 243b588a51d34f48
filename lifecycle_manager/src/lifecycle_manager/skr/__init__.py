"""Access to SKRs. The Lifecycle Manager is the only component that accesses SKRs, and does so through this folder.

`access` finds the kubeconfig of a Kyma's SKR in its Secret, `connections` keeps one pooled client for each SKR in use
and follows rotated kubeconfigs, `controller` probes SKRs that do not answer, `token_renewal` renews the short-lived
tokens of access Secrets (`token` reads them), `announcement` decides when a read is new enough to show the change that
an event reported, `brake` says which deletions are held, `removals` which changes of the catalog, `finalizers` removes
the finalizers of objects that nobody else finalizes, `failure` turns errors into a reason and a message for a
condition, and `watcher` holds what the other folders know of the Watcher.
"""
