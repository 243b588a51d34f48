"""The hosts that modules may come from, where an operator names them."""

import re
from dataclasses import dataclass
from urllib.parse import urlsplit

_ENTRY = re.compile(r"(?:\*\.)?[a-z0-9](?:[a-z0-9.-]*[a-z0-9])?(?::[0-9]{1,5})?|\[[0-9a-f:]+\](?::[0-9]{1,5})?")


@dataclass(frozen=True, slots=True)
class AllowedHosts:
    """Hosts as `registry.example.com`, `registry.example.com:5000` or `*.example.com`; without any, all are allowed.

    An entry without a port allows each port.
    """

    entries: frozenset[str] = frozenset()

    @classmethod
    def of(cls, texts: tuple[str, ...]) -> "AllowedHosts":
        """Return the hosts that texts name. Raises ValueError."""
        for text in texts:
            if not _ENTRY.fullmatch(text.lower()):
                raise ValueError(f"invalid host {text!r}: expected registry.example.com, with :port, or *.example.com")
        return cls(frozenset(text.lower() for text in texts))

    def allow(self, url: str) -> bool:
        """Tell whether the host of a URL is allowed. Raises ValueError where it is no URL."""
        if not self.entries:
            return True
        parts = urlsplit(url)
        name = (parts.hostname or "").rstrip(".")
        host = f"[{name}]" if ":" in name else name
        port = parts.port or (443 if parts.scheme == "https" else 80)
        labels = host.split(".")
        suffixes = {"*." + ".".join(labels[start:]) for start in range(1, len(labels))}
        return any(not self.entries.isdisjoint({each, f"{each}:{port}"}) for each in {host, *suffixes})


ANY_HOST = AllowedHosts()
