"""Everything that a person reads uses Kubernetes' words: names, docstrings, comments, log lines, errors and docs alike.

Each pattern is a word that this project does not use, beside the word to use instead.
"""

import re
import subprocess
from pathlib import Path

import pytest

INSTEAD = {
    r"\blook(s|ed|ing)? after\b|\blooked at\b": "manages, reconciled, read",
    r"\b(told|tells?|telling|hears?|heard) of\b": "reports, receives, is notified",
    r"\bwhat (left|went)\b": "removed objects",
    r"\b(MOST|LARGEST|LONGEST|SMALLEST)_[A-Z]": "MAX_, MIN_",
    r"\bauthorit(y|ies)\b|[a-z_]Authorit|[a-z]_authorit|\bAuthorit": "CA",
    r"\blets? (it |them |an object |objects )?go\b|\bletting go\b|let_go|LetGo": "remove the finalizer, release",
    r"\bwakes?\b|\bwaking\b|\bwoken\b|_wake\b|\bwake_": "enqueue, notify",
    r"\b[Hh]appenings?\b": "event",
    r"\bnews\b": "status, predicate, change",
    r"\bis no (address|port|url|name)\b": "invalid address 'x': expected host:port",
    r"\bg[ai]ves? no answer\b|\bthe time was up\b": "request to HOST timed out after 10 s",
    r"\bnothing (was|is) heard\b": "no events for 60 s",
    r"\bwhose cluster it is\b": "the owner of the object",
    r"\bworth_telling\b": "chains_not_ready",
    r"\bSayEvent\b": "RecordEvent",
    r"\btells_[a-z]|\bsays_something": "has_…, …_changed",
    r"\bheirs?\b": "next_owners",
    r"\bgiven_up\b": "released",
    r"\bwho_has_[a-z]": "kymas_using_…",
    r"\bis_barred\b": "is_excluded",
    r"\bwants_other_[a-z]|\bconcerns_others\b|\bis_[a-z]+_otherwise\b": "spec_changed, ownership_changed, …_changed",
    r"\bkeep_pauses_short\b": "tune_garbage_collection",
    r"\bBorrowedSkr\b": "the shared client of the reconcile",
    r"WatcherHeard|NeverHeard|NEVER_HEARD": "WatcherEventReceived, NoWatcherEvents",
    r"\bObjectsGoing\b": "ObjectsTerminating",
    r"\b(goes|went|going) back in time\b": "the resourceVersion decreased",
    r"\bwaits for [^.]* to go\b": "waiting for deletion of",
    r"\bthey go with the\b": "deleted with the",
    r"--yes answers": "not confirmed; nothing changed. Use --yes",
    r"\bwhen what was\b|\bWhy is it so\b": "Timeline, Explain",
    r"\bleft to (its|their|the) users\b": "released to the users",
    r"\bwants nothing\b": "has no objects",
    r"\b(told|said|heard) = |[a-z]_(told|heard)\b|\b_?(told|heard)_[a-z]|\btell\(\{": "result, message, received",
    r"\bpatience|_patience\b|PATIENCE|PATIENT": "timeout",
    r"_concerned\b|\bconcerned_": "affected",
}
"""Patterns of words to avoid, and what to write instead."""

NOT_OURS = {
    r"certificate-authority(-data)?": "fields of a kubeconfig, and an option of kubectl",
    r"\bcertificate authority\b": "what the abbreviation CA means; the glossary explains it",
    r"AuthorityKeyIdentifier|\bauthority_key_identifier\b": "an extension of X.509 certificates",
    r"\"@authority\"": "a component of a signature, by RFC 9421",
}
"""Names that others have defined, and where they come from. They are removed from a line before it is searched."""

PATTERNS = {re.compile(pattern): instead for pattern, instead in INSTEAD.items()}
ALLOWED = re.compile("|".join(NOT_OURS))
READ = ("*.py", "*.md", "*.yaml", "*.yml", "*.template", "*.toml", "*.tpl", "*.json", "*.svg", "*.txt")
FILES = (*READ, "*Makefile", "*Dockerfile", f":!{Path(__file__).relative_to(Path.cwd())}")
"""The tracked files that people read; not this one."""


def lines_with(*patterns: str) -> list[str]:
    """Return the lines of these files that match, as `file:line:text`; git searches them 30 times faster than `re`."""
    asked = [word for pattern in patterns for word in ("-e", pattern)]
    done = subprocess.run(
        ["git", "grep", "-nIP", *asked, "--", *FILES], check=False, capture_output=True, text=True, errors="replace"
    )
    assert done.returncode in {0, 1}, done.stderr  # 1: none
    return done.stdout.splitlines()


def findings() -> list[str]:
    """Return each use of a word to avoid as `file:line: word (write: …)`."""
    found = []
    for line in lines_with(*INSTEAD):
        file, number, text = line.split(":", 2)
        ours = ALLOWED.sub("", text)
        for pattern, instead in PATTERNS.items():
            if match := pattern.search(ours):
                found.append(f"{file}:{number}: {match[0]!r} (write: {instead})")
    return found


def test_no_text_uses_a_word_to_avoid() -> None:
    found = findings()
    assert not found, f"{len(found)} uses\n" + "\n".join(found[:200])


@pytest.mark.parametrize(
    "line",
    [
        "it looks after Kymas",
        "the event was told of",
        "MOST_OBJECTS = 5",
        "AuthorityStore",
        "def let_go(): ...",
        "wakes a key",
        "'x' is no address",
    ],
)
def test_each_kind_of_word_to_avoid_is_found(line: str) -> None:
    assert any(pattern.search(line) for pattern in PATTERNS)


def test_each_exception_is_used() -> None:
    assert [name for name in NOT_OURS if not lines_with(name)] == []
