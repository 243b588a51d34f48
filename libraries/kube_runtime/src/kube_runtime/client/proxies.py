"""Which proxy leads to a server by HTTPS_PROXY, HTTP_PROXY and NO_PROXY, as kubectl, Helm and programs in Go read them.

HTTP libraries for Python know no networks in NO_PROXY, by which API servers are excepted. This machine is never reached
by a proxy.
Source: https://pkg.go.dev/golang.org/x/net/http/httpproxy#Config
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address, ip_network
from urllib.parse import urlsplit

_THIS_MACHINE = "localhost,127.0.0.0/8,::1"


def proxy_of_environment(url: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the proxy for a URL, None where it is reached directly. Raises ValueError, which quotes no password."""
    parts = urlsplit(url)
    variable = f"{parts.scheme.upper()}_PROXY"
    proxy, excepted = _value(environment, variable), f"{_THIS_MACHINE},{_value(environment, 'NO_PROXY')}"
    host, port = parts.hostname or "", parts.port or {"https": 443}.get(parts.scheme, 80)
    if not proxy or any(_means(each.strip(), host, port) for each in excepted.split(",")):
        return None
    return usable_proxy(proxy if "://" in proxy else f"http://{proxy}", variable)


def usable_proxy(proxy: str, source: str) -> str:
    """Return a proxy. Raises ValueError for one that would be spoken to in the wrong way, or be left out."""
    try:
        parts = urlsplit(proxy)
        host = parts.hostname or ""
        host.encode("idna")
        is_usable = parts.scheme in {"http", "https"} and host and host.isprintable() and parts.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        raise ValueError(f"{source} is no http or https address; others are not supported")
    return proxy


def _value(environment: Mapping[str, str], name: str) -> str:
    return environment.get(name) or environment.get(name.lower()) or ""


def _means(entry: str, host: str, port: int) -> bool:
    """Tell whether an entry of NO_PROXY means a server: `*`, a network, an address or a domain, also with a port."""
    with suppress(ValueError):  # one of them is none, or there is a port
        return ip_address(host) in ip_network(entry, strict=False)
    try:
        parts = urlsplit(f"//{entry}")
        name, only = parts.hostname or "", parts.port
    except ValueError:
        return False
    domain = name.removeprefix("*").removeprefix(".")
    is_named = entry == "*" or (bool(domain) and (name == host or host.endswith(f".{domain}")))
    return is_named and only in {None, port}
