"""The CAs, and the store of the Watchers' certificates that the settings ask for."""

from prometheus_client import Counter

from kube_runtime import Client, Manager
from kyma_certs import RotationRules
from lifecycle_manager.contract.resources import SECRETS
from lifecycle_manager.options.watcher import CertificateSettings
from lifecycle_manager.skr.access import OUR_SECRETS
from lifecycle_manager.watcher_certificates.ca_rotation import CARotation, setup_ca
from lifecycle_manager.watcher_certificates.ca_store import Adopts, CAStore, adopts_nothing
from lifecycle_manager.watcher_certificates.cert_manager import CertManagerStore
from lifecycle_manager.watcher_certificates.certificates import CertificateStore, LeafStore
from lifecycle_manager.watcher_certificates.gardener import GardenerStore


def setup(
    manager: Manager, kcp: Client, settings: CertificateSettings, *, adopts: Adopts = adopts_nothing
) -> tuple[CARotation, LeafStore]:
    """Keep the CAs, and return them with the store of the Watchers' certificates that the settings ask for.

    `adopts` finds the CAs of a former version in a namespace; `kcp` is a client that is not fenced, see `setup_ca`.
    """
    store = CAStore(
        kcp,
        manager.clock,
        lifetime=settings.ca_lifetime,
        adopts=adopts,
        former_namespace=settings.former_namespace,
    )
    rules = RotationRules(renew_before=settings.ca_renew_before, grace=settings.ca_grace, timeout=settings.ca_timeout)
    cas = setup_ca(manager, store, rules)
    secrets = manager.informer(SECRETS, label_selector=OUR_SECRETS)
    issued = Counter(
        "lifecycle_mgr_watcher_certificates_issued",
        "Watchers' certificates that were issued; with another issuer, those whose renewal was requested.",
        ["issuer"],
        registry=manager.registry,
    )
    common = (manager.client, secrets, manager.clock, settings.leaf, issued.labels(settings.cert_management).inc)
    for each in (CertManagerStore, GardenerStore):
        if each.certificates.api_version == settings.cert_management:
            return cas, each(*common, issuer=settings.issuer, issuer_namespace=settings.issuer_namespace)
    return cas, CertificateStore(*common)
