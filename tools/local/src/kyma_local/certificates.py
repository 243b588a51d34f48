"""The certificates of local clusters: one CA for each run, and a key pair for each user."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from kyma_certs import KeyPair, LeafRequest, create_ca, issue
from kyma_local.private_files import write_private

LIFETIME = timedelta(days=30)
SERVER_NAMES = ("localhost", "kubernetes.default.svc")
SERVER_ADDRESSES = ("127.0.0.1", "10.0.0.1")  # the second is the Service `kubernetes`


def create_local_ca() -> KeyPair:
    """Create the CA of a run."""
    return create_ca("local-clusters", lifetime=LIFETIME, now=datetime.now(UTC))


def issue_for(
    ca: KeyPair,
    user: str,
    groups: tuple[str, ...] = (),
    *,
    lifetime: timedelta = LIFETIME,
    addresses: tuple[str, ...] = (),
) -> KeyPair:
    """Issue a certificate for a user with groups, also valid for a server on loopback and at the addresses.

    Raises NameRefused.
    """
    request = LeafRequest(
        common_name=user,
        organizations=groups,
        dns_names=SERVER_NAMES,
        ip_addresses=(*SERVER_ADDRESSES, *addresses),
        lifetime=lifetime,
    )
    return issue(ca, request, now=datetime.now(UTC))


def write_key_pair(pair: KeyPair, directory: Path, name: str) -> tuple[Path, Path]:
    """Write certificate and key to files; return their paths."""
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    certificate.write_bytes(pair.certificate_pem)
    return certificate, write_private(key, pair.key_pem.decode())
