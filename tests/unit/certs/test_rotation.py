"""Rotation of CAs: which step is due when, and which CAs are trusted in each phase."""

from datetime import UTC, datetime, timedelta

import pytest

from kyma_certs import (
    CAs,
    KeyPair,
    LeafRequest,
    RotationRules,
    RotationStep,
    announced,
    create_ca,
    dropped,
    issue,
    next_step,
    spread,
    switched,
    verify_chain,
)
from tests.unit.certs.test_certificates import der

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
RULES = RotationRules(renew_before=timedelta(days=30), grace=timedelta(minutes=10), timeout=timedelta(days=7))


def new_ca() -> KeyPair:
    return create_ca("ca", lifetime=timedelta(days=100), now=NOW)


def due(cas: CAs, now: datetime = NOW, *, all_updated: bool = False, asked: bool = False) -> RotationStep | None:
    return next_step(cas, RULES, all_updated=all_updated, asked=asked, now=now)


def trusts(cas: CAs, pair: KeyPair) -> bool:
    leaf = issue(pair, LeafRequest(common_name="runtime", dns_names=("a.example",)), now=NOW)
    try:
        verify_chain(der(leaf), cas.trusted, now=NOW)
    except Exception:  # noqa: BLE001 - any reason means not trusted
        return False
    return True


def test_rotation_begins_before_the_ca_expires_or_on_request() -> None:
    alone = CAs(new_ca())
    assert due(alone) is None
    assert due(alone, NOW + timedelta(days=71)) is RotationStep.ANNOUNCE
    assert due(alone, asked=True) is RotationStep.ANNOUNCE


def test_phase_ends_a_grace_time_after_all_have_the_trust_bundle() -> None:
    phase = announced(CAs(new_ca()), new_ca(), now=NOW)
    assert due(phase) is None
    assert due(phase, all_updated=True) is RotationStep.NOTE_SPREAD
    noted = spread(phase, now=NOW)
    assert due(noted, NOW + timedelta(minutes=9), all_updated=True) is None
    assert due(noted, NOW + timedelta(minutes=10)) is RotationStep.SWITCH
    second = switched(noted, now=NOW)
    assert due(second) is None
    assert due(spread(second, now=NOW), NOW + timedelta(minutes=10)) is RotationStep.DROP


def test_unreachable_cluster_delays_a_phase_by_the_timeout_at_most() -> None:
    phase = announced(CAs(new_ca()), new_ca(), now=NOW)
    assert due(phase, NOW + timedelta(days=7)) is RotationStep.SWITCH
    assert due(switched(phase, now=NOW), NOW + timedelta(days=7)) is RotationStep.DROP


def test_both_cas_are_trusted_from_the_announcement_until_the_former_is_dropped() -> None:
    old, new = new_ca(), new_ca()
    alone = CAs(old)
    first = announced(alone, new, now=NOW)
    second = switched(first, now=NOW)
    last = dropped(second)
    assert [(trusts(each, old), trusts(each, new)) for each in (alone, first, second, last)] == [
        (True, False),
        (True, True),
        (True, True),
        (False, True),
    ]
    assert [each.signing for each in (alone, first, second, last)] == [old, old, new, new]


def test_certificate_of_the_former_ca_has_to_be_replaced() -> None:
    old, new = new_ca(), new_ca()
    by_old, by_new = (issue(each, LeafRequest(common_name="runtime"), now=NOW).certificate_pem for each in (old, new))
    first = announced(CAs(old), new, now=NOW)
    second = switched(first, now=NOW)
    assert first.issuer_stays(by_old)
    assert first.issuer_stays(by_new)  # by a replica that is a step ahead
    assert not second.issuer_stays(by_old)
    assert second.issuer_stays(by_new)


def test_each_phase_has_its_own_fingerprint_which_spread_at_does_not_change() -> None:
    first = announced(CAs(new_ca()), new_ca(), now=NOW)
    phases = (CAs(first.signing), first, switched(first, now=NOW), dropped(switched(first, now=NOW)))
    assert len({each.fingerprint for each in phases}) == len(phases)
    assert spread(first, now=NOW).fingerprint == first.fingerprint


def test_switch_without_an_announced_ca_fails() -> None:
    with pytest.raises(ValueError, match="announced"):
        switched(CAs(new_ca()), now=NOW)
