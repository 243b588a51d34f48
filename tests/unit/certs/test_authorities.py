"""How one authority gives way to the next: what is due when, and what is trusted meanwhile."""

from datetime import UTC, datetime, timedelta

import pytest

from kyma_certs import (
    Authorities,
    KeyPair,
    LeafRequest,
    RotationRules,
    Step,
    Usage,
    announced,
    create_authority,
    dropped,
    issue,
    next_step,
    spread,
    switched,
    verify_chain,
)
from tests.unit.certs.test_certificates import der

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
RULES = RotationRules(renew_before=timedelta(days=30), grace=timedelta(minutes=10), patience=timedelta(days=7))


def authority() -> KeyPair:
    return create_authority("authority", lifetime=timedelta(days=100), now=NOW)


def due(
    authorities: Authorities, now: datetime = NOW, *, everybody_has_it: bool = False, asked: bool = False
) -> Step | None:
    return next_step(authorities, RULES, everybody_has_it=everybody_has_it, asked=asked, now=now)


def trusts(authorities: Authorities, pair: KeyPair) -> bool:
    leaf = issue(pair, LeafRequest(common_name="runtime", dns_names=("a.example",)), now=NOW)
    try:
        verify_chain(der(leaf), authorities.trusted, usage=Usage.CLIENT, now=NOW)
    except Exception:  # noqa: BLE001 - whatever the reason, it is not trusted
        return False
    return True


def test_rotation_begins_ahead_of_the_end_or_when_somebody_asks() -> None:
    alone = Authorities(authority())
    assert due(alone) is None
    assert due(alone, NOW + timedelta(days=71)) is Step.ANNOUNCE
    assert due(alone, asked=True) is Step.ANNOUNCE


def test_rotation_waits_until_everybody_has_it_and_a_while_longer() -> None:
    phase = announced(Authorities(authority()), authority(), now=NOW)
    assert due(phase) is None
    assert due(phase, everybody_has_it=True) is Step.NOTE_SPREAD
    noted = spread(phase, now=NOW)
    assert due(noted, NOW + timedelta(minutes=9), everybody_has_it=True) is None
    assert due(noted, NOW + timedelta(minutes=10)) is Step.SWITCH
    second = switched(noted, now=NOW)
    assert due(second) is None
    assert due(spread(second, now=NOW), NOW + timedelta(minutes=10)) is Step.DROP


def test_cluster_that_stays_away_holds_a_rotation_up_no_longer_than_our_patience() -> None:
    phase = announced(Authorities(authority()), authority(), now=NOW)
    assert due(phase, NOW + timedelta(days=7)) is Step.SWITCH
    assert due(switched(phase, now=NOW), NOW + timedelta(days=7)) is Step.DROP


def test_both_are_trusted_from_the_announcement_until_the_former_is_dropped() -> None:
    old, new = authority(), authority()
    alone = Authorities(old)
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


def test_certificate_has_to_be_replaced_once_its_authority_is_the_former_one() -> None:
    old, new = authority(), authority()
    by_old, by_new = (issue(each, LeafRequest(common_name="runtime"), now=NOW).certificate_pem for each in (old, new))
    first = announced(Authorities(old), new, now=NOW)
    second = switched(first, now=NOW)
    assert first.vouch_for(by_old)
    assert first.vouch_for(by_new)  # by a replica that is a step ahead
    assert not second.vouch_for(by_old)
    assert second.vouch_for(by_new)


def test_each_phase_has_a_fingerprint_of_its_own_and_the_note_of_its_spread_does_not_change_it() -> None:
    first = announced(Authorities(authority()), authority(), now=NOW)
    phases = (Authorities(first.signing), first, switched(first, now=NOW), dropped(switched(first, now=NOW)))
    assert len({each.fingerprint for each in phases}) == len(phases)
    assert spread(first, now=NOW).fingerprint == first.fingerprint


def test_authority_that_was_not_announced_never_takes_over() -> None:
    with pytest.raises(ValueError, match="announced"):
        switched(Authorities(authority()), now=NOW)
