"""The Kyma: one user cluster, and the modules that its users want in it.

The Kyma CR in KCP names the cluster and its default modules; the one called `default` in the SKR belongs to the
users, who choose modules and channels there. This folder brings the latter into being, reads it, resolves each
module to a version and writes its Manifest, and shows the state of it all on both sides. What the modules then need is
the business of other folders, which read the outcome in the Manifests and the Kyma's status.

Read `resolution` for which version a module has, `wanted` and `plan` for what follows from that, `status` for what
users see, `definition` for which CRD clusters get, and `observe` and `act` for how the rules meet the clusters.
"""

from lifecycle_manager.kyma.definition import brings_other
from lifecycle_manager.kyma.observe import Patience
from lifecycle_manager.kyma.plan import CRD_HASH
from lifecycle_manager.kyma.reconciler import SKR_KYMA, KymaReconciler

__all__ = ["CRD_HASH", "SKR_KYMA", "KymaReconciler", "Patience", "brings_other"]
