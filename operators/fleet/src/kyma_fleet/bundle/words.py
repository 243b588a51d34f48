"""Which words of a text go into a support archive: an allow list, as nobody can list what a secret looks like.

Messages, notes and logs quote what users and module teams wrote. Kept are words that the programs' own source code has,
short numbers, times, digests of contents, and names of objects that were learned; any other word is replaced.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kube_runtime
import kyma_fleet
import lifecycle_manager
import lifecycle_manager_api

REDACTED = "REDACTED"
MAX_DIGITS = 8
OF_KUBERNETES = (
    "affinity allocatable available back backoff calico cluster connect container crash cpu deadline denied dial "
    "ephemeral evicted exceeded exit failed had host image insufficient killed liveness loop lookup match memory mount "
    "node nodes oom out preemption probe pull pulling quota readiness refused registry restarting sandbox schedule "
    "scheduling selector started startup taint taints tcp tolerate unhealthy untolerated volume volumes"
)
"""Words of its events and errors that our source code may lack."""
CHUNK = re.compile(r"[^\s{}\[\](),;=\"'\\]+")
PART = re.compile(r"[A-Za-z0-9]+")
HUMP = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")
TIME = re.compile(r"\d{4}-\d\d-\d\d(T\d\d:\d\d:\d\d(\.\d{1,9})?(Z|[+-]\d\d:\d\d)?)?:?")
DIGEST = re.compile(r"(\w{0,32}@)?sha256:[0-9a-f]{64}")
NUMBER = re.compile(r"\d{1,5}([KMGT]i?B?)?|(\d{1,5}(ms|[smhd])){1,4}")
SAMPLE = re.compile(r"(.*) (-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|NaN|[+-]?Inf)")
SOURCES = (kube_runtime, kyma_fleet, lifecycle_manager, lifecycle_manager_api)


class Words:
    """The words that are kept, and what is left of texts and documents by them."""

    def __init__(self) -> None:
        self._known = set(OF_KUBERNETES.split())
        for package in SOURCES:
            for file in (file for folder in package.__path__ for file in Path(folder).rglob("*.py")):
                found = PART.findall(f"{file.stem} {file.read_text()}")
                self._known |= {each.lower() for each in found if not each.isdecimal()}

    def learn(self, *texts: str) -> None:
        """Keep the words of names, too."""
        self._known |= {each.lower() for text in texts for each in PART.findall(text)}

    def kept(self, text: str) -> str:
        """Return a text with its unknown words replaced, in a time that grows with its length alone."""
        return CHUNK.sub(lambda found: found[0] if self._is_known(found[0]) else REDACTED, text)

    def kept_value(self, value: Any) -> Any:
        """Return a value of JSON with unknown words replaced, in keys as well."""
        match value:
            case str():
                return self.kept(value)
            case Mapping():
                return {self.kept(str(key)): self.kept_value(each) for key, each in value.items()}
            case list() | tuple():
                return [self.kept_value(each) for each in value]
            case _:
                return value

    def kept_metrics(self, text: str) -> str:
        """Return measurements; the value at the end of a line stays."""
        lines = ((SAMPLE.fullmatch(line), line) for line in text.splitlines())
        return "".join(f"{self.kept(it[1])} {it[2]}\n" if it else f"{self.kept(line)}\n" for it, line in lines)

    def _is_known(self, chunk: str) -> bool:
        if TIME.fullmatch(chunk) or DIGEST.fullmatch(chunk):
            return True
        parts = [each for each in PART.findall(chunk) if each.lower() not in self._known]
        digits = sum(len(each) for each in parts if each.isdecimal())
        return chunk.isascii() and digits <= MAX_DIGITS and all(map(self._is_known_part, parts))

    def _is_known_part(self, part: str) -> bool:
        """Tell whether it is a short number, or a name of known words such as CrashLoopBackOff."""
        humps = HUMP.findall(part)
        is_name = part.isalpha() and all(len(each) > 1 and each.lower() in self._known for each in humps)
        return is_name or NUMBER.fullmatch(part) is not None
