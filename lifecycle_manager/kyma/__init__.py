"""The Kyma: one user cluster, and the modules that its users want in it.

The Kyma CR in KCP names the cluster and its default modules; the one called `default` in the SKR belongs to the
users, who choose modules and channels there. This folder brings the latter into being, reads it, resolves each
module to a ModuleTemplate, and writes the state of it all to both sides. What the modules then need is the
business of other folders, which read the outcome in the Kyma's status.

Read `resolution` and `plan` for the rules, `observe` and `act` for how they meet the clusters.
"""

from lifecycle_manager.kyma.reconciler import SKR_KYMA, KymaReconciler

__all__ = ["SKR_KYMA", "KymaReconciler"]
