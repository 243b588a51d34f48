"""The trusted CAs over time, and how one CA replaces another without a failed connection.

Clients and servers never switch at the same moment. So a rotation has two phases. Each ends a grace time after all
clients and servers have the trust bundle of that phase:

1. *announced*: all trust the next CA; the current one still issues.
2. *switched*: the next CA issues; the former one is still trusted, until its last certificate has been replaced.

The next step is a pure function of the CAs, the time, and whether all have the current trust bundle. A step returns new
CAs. The caller stores them in one place, so that each step is taken once.
"""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from enum import StrEnum
from functools import cached_property

from kyma_certs.issuing import KeyPair
from kyma_certs.reading import bundle, describe, issued_by, renewal_due


class RotationStep(StrEnum):
    """The next step of a rotation."""

    ANNOUNCE = "Announce"
    NOTE_SPREAD = "NoteSpread"
    SWITCH = "Switch"
    DROP = "Drop"


@dataclass(frozen=True)
class CAs:
    """The CA that issues, and the others that are trusted.

    `since` is when the current phase of a rotation began, `spread_at` when all were first found to have the trust
    bundle of this phase. Only the certificate of a former CA is kept, not its key.
    """

    signing: KeyPair
    following: KeyPair | None = None
    former_pem: bytes | None = None
    since: datetime | None = None
    spread_at: datetime | None = None

    @property
    def rotating(self) -> bool:
        """Whether more than one CA is trusted."""
        return self.following is not None or self.former_pem is not None

    @cached_property
    def trusted(self) -> bytes:
        """The certificates of all trusted CAs as one PEM bundle; the CA that issues comes first."""
        following = (self.following.certificate_pem,) if self.following is not None else ()
        former = (self.former_pem,) if self.former_pem is not None else ()
        return bundle([self.signing.certificate_pem, *following, *former])

    @cached_property
    def fingerprint(self) -> str:
        """A short text that differs when another CA issues or other CAs are trusted."""
        others = [self.following.certificate_pem] if self.following is not None else []
        others += [self.former_pem] if self.former_pem is not None else []
        return "+".join(describe(pem).sha256[:16] for pem in (self.signing.certificate_pem, *others))

    def issuer_stays(self, certificate_pem: bytes) -> bool:
        """Return whether a certificate may be kept: the CA that issued it is trusted after the rotation, too.

        A certificate of the former CA has to be replaced. One of the next CA was issued by a replica that is a step
        ahead.
        """
        lasting = [self.signing, *((self.following,) if self.following is not None else ())]
        return any(issued_by(certificate_pem, each.certificate_pem) for each in lasting)


@dataclass(frozen=True, slots=True, kw_only=True)
class RotationRules:
    """When a rotation begins, and how long a phase lasts.

    A phase ends `grace` after all were found to have the trust bundle, so that programs can read it from their files.
    Unreachable clusters delay a phase by `timeout` at most.
    """

    renew_before: timedelta = timedelta(days=365)
    grace: timedelta = timedelta(minutes=10)
    timeout: timedelta = timedelta(days=7)


def next_step(cas: CAs, rules: RotationRules, *, all_updated: bool, asked: bool, now: datetime) -> RotationStep | None:
    """Return the step that is due, or None. `asked` begins a rotation ahead of time.

    `all_updated`: all clusters have the current trust bundle.
    """
    if not cas.rotating:
        due = renewal_due(cas.signing.certificate_pem, renew_before=rules.renew_before, now=now)
        return RotationStep.ANNOUNCE if due or asked else None
    after = RotationStep.SWITCH if cas.following is not None else RotationStep.DROP
    if cas.since is not None and now - cas.since >= rules.timeout:
        return after
    if cas.spread_at is None:
        return RotationStep.NOTE_SPREAD if all_updated else None
    return after if now - cas.spread_at >= rules.grace else None


def announced(cas: CAs, following: KeyPair, *, now: datetime) -> CAs:
    """Return the CAs with one more that is trusted and issues next."""
    return CAs(cas.signing, following=following, since=now)


def spread(cas: CAs, *, now: datetime) -> CAs:
    """Return the CAs with the time at which all were found to have the trust bundle."""
    return replace(cas, spread_at=now)


def switched(cas: CAs, *, now: datetime) -> CAs:
    """Return the CAs after the next one has replaced the current one. Raises ValueError if none was announced."""
    if cas.following is None:
        raise ValueError("cannot switch to the next CA: none was announced")
    return CAs(cas.following, former_pem=cas.signing.certificate_pem, since=now)


def dropped(cas: CAs) -> CAs:
    """Return the CAs without the former one."""
    return CAs(cas.signing)
