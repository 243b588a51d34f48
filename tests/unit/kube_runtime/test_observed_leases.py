"""What a member takes for the newest revision of another member's Lease."""

import pytest

from kube_crds import ObjectMetadata
from kube_runtime.leases.lease import Lease, LeaseSpec, Observation


def lease(resource_version: str) -> Lease:
    metadata = ObjectMetadata(name="members-one", resource_version=resource_version)
    return Lease(metadata=metadata, spec=LeaseSpec(lease_duration_seconds=10))


@pytest.mark.parametrize(
    ("seen", "as_of", "is_taken"),
    [
        pytest.param("8", "8", True, id="a renewal"),
        pytest.param("7", "7", False, id="the same revision"),
        pytest.param("7", "9", False, id="the same revision in a later list"),
        pytest.param("6", "6", False, id="an older one from a cache that is behind"),
        pytest.param("6", "1000", True, id="an older one in a later list, after a restore of etcd"),
    ],
)
def test_revision_counts_by_the_list_that_shows_it(seen: str, as_of: str, *, is_taken: bool) -> None:
    observed = Observation(lease("7"), 100.0)
    observed.update(lease(seen), 200.0, as_of=as_of)
    assert observed.lease.metadata.resource_version == (seen if is_taken else "7")
    assert observed.free_at(60.0) == (210.0 if is_taken else 110.0)
