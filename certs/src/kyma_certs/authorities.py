"""The authorities of one trust over time, and how one gives way to the next while nobody loses a connection.

Who shows a certificate and who checks it never change at the same moment. So a rotation has two phases, and each lasts
until everybody has what the phase before brought, and a while longer:

1. *announced*: the next authority is trusted by all, and the current one still issues.
2. *switched*: the next one issues, and the former is still trusted, until its last certificate has been replaced.

What to do next is a pure function of the authorities, the clock, and whether everybody has what is in force. A step
gives new authorities; keeping them in one place, so that a step is taken once, is the business of the caller.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from kyma_certs.issuing import KeyPair
from kyma_certs.reading import bundle, describe, issued_by, renewal_due


class Step(StrEnum):
    """What a rotation does next."""

    ANNOUNCE = "Announce"
    NOTE_SPREAD = "NoteSpread"
    SWITCH = "Switch"
    DROP = "Drop"


@dataclass(frozen=True)
class Authorities:
    """The one that issues, and who else is trusted. `since` says when the phase of a rotation began.

    `spread_at` says when everybody was first found to have what is in force. Of a former authority the key is gone.
    """

    signing: KeyPair
    following: KeyPair | None = None
    former_pem: bytes | None = None
    since: datetime | None = None
    spread_at: datetime | None = None

    @property
    def rotating(self) -> bool:
        """Whether more than one authority is trusted."""
        return self.following is not None or self.former_pem is not None

    @cached_property
    def trusted(self) -> bytes:
        """The certificates of all that are trusted, as one bundle in PEM; the one that issues is the first."""
        following = (self.following.certificate_pem,) if self.following is not None else ()
        former = (self.former_pem,) if self.former_pem is not None else ()
        return bundle([self.signing.certificate_pem, *following, *former])

    @cached_property
    def fingerprint(self) -> str:
        """What tells these authorities from others, in a few letters: who issues, and who is trusted besides."""
        others = [self.following.certificate_pem] if self.following is not None else []
        others += [self.former_pem] if self.former_pem is not None else []
        return "+".join(describe(pem).sha256[:16] for pem in (self.signing.certificate_pem, *others))

    def vouch_for(self, certificate_pem: bytes) -> bool:
        """Tell whether a certificate may stay: it was issued by the authority that issues now, or will next.

        One by the former has to be replaced. One by the next is the work of somebody who is a step ahead of us.
        """
        lasting = [self.signing, *((self.following,) if self.following is not None else ())]
        return any(issued_by(certificate_pem, each.certificate_pem) for each in lasting)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationRules:
    """When a rotation begins, and how long a phase lasts.

    A phase ends `grace` after everybody was found to have what is in force: that is for those who read it from files.
    Whoever can't be reached holds a rotation up for `patience` at most.
    """

    renew_before: timedelta = timedelta(days=365)
    grace: timedelta = timedelta(minutes=10)
    patience: timedelta = timedelta(days=7)


def next_step(
    authorities: Authorities, rules: RotationRules, *, everybody_has_it: bool, asked: bool, now: datetime
) -> Step | None:
    """Return what to do now, or None where nothing is due. `asked` begins a rotation ahead of its time."""
    if not authorities.rotating:
        due = renewal_due(authorities.signing.certificate_pem, renew_before=rules.renew_before, now=now)
        return Step.ANNOUNCE if due or asked else None
    after = Step.SWITCH if authorities.following is not None else Step.DROP
    if authorities.since is not None and now - authorities.since >= rules.patience:
        return after
    if authorities.spread_at is None:
        return Step.NOTE_SPREAD if everybody_has_it else None
    return after if now - authorities.spread_at >= rules.grace else None


def announced(authorities: Authorities, following: KeyPair, *, now: datetime) -> Authorities:
    """Return the authorities with one more that is trusted and will issue next."""
    return Authorities(authorities.signing, following=following, since=now)


def spread(authorities: Authorities, *, now: datetime) -> Authorities:
    """Return the authorities with the note that everybody has them."""
    return replace(authorities, spread_at=now)


def switched(authorities: Authorities, *, now: datetime) -> Authorities:
    """Return the authorities after the next one took over. Raises ValueError where none was announced."""
    if authorities.following is None:
        raise ValueError("no authority was announced that could take over")
    return Authorities(authorities.following, former_pem=authorities.signing.certificate_pem, since=now)


def dropped(authorities: Authorities) -> Authorities:
    """Return the authorities without the former one."""
    return Authorities(authorities.signing)
