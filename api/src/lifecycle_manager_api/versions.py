"""Versions of modules, compared after the rules of Semantic Versioning 2.0.0 (semver.org)."""

import re
from typing import Self

import msgspec

_NUMBER = r"(0|[1-9]\d*)"
_IDENTIFIER = r"(?:0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)"
SEMANTIC_VERSION = (
    rf"^{_NUMBER}\.{_NUMBER}\.{_NUMBER}(?:-({_IDENTIFIER}(?:\.{_IDENTIFIER})*))?"
    r"(?:\+([0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*))?$"
)
LONGEST = 256


class InvalidVersion(ValueError):
    """The text is no semantic version."""


class Version(msgspec.Struct, frozen=True, eq=False):
    """A semantic version. Build metadata is kept and, as the rules have it, not compared."""

    major: int
    minor: int
    patch: int
    prerelease: tuple[str, ...] = ()
    build: tuple[str, ...] = ()

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the version that a text says. Raises InvalidVersion."""
        found = re.fullmatch(SEMANTIC_VERSION[1:-1], text, re.ASCII) if len(text) <= LONGEST else None
        if found is None:
            raise InvalidVersion(f"{text[:LONGEST]!r} is no semantic version; write it like 1.2.3 or 1.2.3-rc.1")
        major, minor, patch, prerelease, build = found.groups()
        return cls(int(major), int(minor), int(patch), _identifiers(prerelease), _identifiers(build))

    def __str__(self) -> str:
        """Return the text that the version was parsed from."""
        prerelease = f"-{'.'.join(self.prerelease)}" if self.prerelease else ""
        build = f"+{'.'.join(self.build)}" if self.build else ""
        return f"{self.major}.{self.minor}.{self.patch}{prerelease}{build}"

    def __eq__(self, other: object) -> bool:
        """Tell whether neither version goes before the other."""
        return isinstance(other, Version) and self._precedence() == other._precedence()

    def __lt__(self, other: "Version") -> bool:
        """Tell whether this version goes before another one."""
        return self._precedence() < other._precedence()

    def __le__(self, other: "Version") -> bool:
        """Tell whether this version does not go after another one."""
        return self._precedence() <= other._precedence()

    def __hash__(self) -> int:
        """Return the same for versions that are equal."""
        return hash(self._precedence())

    def _precedence(self) -> tuple[object, ...]:
        # A release goes after its prereleases; a number goes before a word (semver.org, 11).
        identifiers = tuple((0, int(each), "") if each.isdecimal() else (1, 0, each) for each in self.prerelease)
        return (self.major, self.minor, self.patch, not self.prerelease, identifiers)


def _identifiers(text: str | None) -> tuple[str, ...]:
    return tuple(text.split(".")) if text else ()
