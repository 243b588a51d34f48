"""The Kyma: one user cluster, and the modules that its users want in it.

The Kyma CR in KCP names the SKR and its default modules; the Kyma CR `default` in the SKR belongs to the users, who
choose modules and channels there. This domain creates the latter, reads it, resolves each module to a version, writes
the Manifest of each module, and shows the status on both sides. Other domains continue from the Manifests and the
Kyma's status.

Start with `controller` for what triggers a Kyma, what is done then and in which order, `resolution` for which version
a module gets, `status` for what users see. `deletion` is planned in stages.
"""

from lifecycle_manager.kyma.controller import SKR_KYMA, setup
from lifecycle_manager.options.kymas import KymaSettings, Timeouts

__all__ = ["SKR_KYMA", "KymaSettings", "Timeouts", "setup"]
