"""Versions of modules, ordered by Semantic Versioning 2.0.0 (semver.org)."""

import re
from typing import Self

import msgspec

_NUMBER = r"(0|[1-9]\d*)"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMANTIC_VERSION = (
    rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
MAX_LENGTH = 256


class InvalidVersion(ValueError):
    """The text is not a semantic version."""


class Version(msgspec.Struct, frozen=True, eq=False):
    """A semantic version. Build metadata is kept, but not compared."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a version. Raises InvalidVersion."""
        found = re.fullmatch(SEMANTIC_VERSION[1:-1], text, re.ASCII) if len(text) <= MAX_LENGTH else None
        if found is None:
            raise InvalidVersion(
                f"{text[:MAX_LENGTH]!r} is not a semantic version: expected a form such as 1.2.3 or 1.2.3-rc.1"
            )
        major, minor, patch, prerelease, build = found.groups()
        return cls(int(major), int(minor), int(patch), _identifiers(prerelease), _identifiers(build))

    def __str__(self) -> str:
        """Return the text that the version was parsed from."""
        prerelease = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def __eq__(self, other: object) -> bool:
        """Tell whether both versions have the same precedence."""
        return isinstance(other, Version) and self._precedence() == other._precedence()

    def __lt__(self, other: "Version") -> bool:
        """Tell whether this version precedes another one."""
        return self._precedence() < other._precedence()

    def __le__(self, other: "Version") -> bool:
        """Tell whether this version precedes another one or has the same precedence."""
        return self._precedence() <= other._precedence()

    def __hash__(self) -> int:
        """Return the same hash for equal versions."""
        return hash(self._precedence())

    def _precedence(self) -> tuple[object, ...]:
        # A release follows its prereleases; a number precedes a word (semver.org, 11).
        identifiers = tuple((0, int(each), "") if each.isdecimal() else (1, 0, each) for each in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)


def _identifiers(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()
