"""The options of the command `kube-runtime`. What they run is imported after they are read: help is printed at once."""

import argparse
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = parser().parse_args(arguments)
    from kube_runtime.command import execute

    return execute(given)


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid address {text!r}: expected host:port")
    return host.strip("[]"), int(port)


def parser() -> argparse.ArgumentParser:
    """Return what parses the arguments of the command."""
    parser = argparse.ArgumentParser(prog="kube-runtime", description="Operators for Kubernetes in Python.")
    add = partial(parser.add_subparsers(dest="command", required=True).add_parser, allow_abbrev=False)
    new = add("new", help="create a project: an operator, its tests, Dockerfile and manifest")
    new.add_argument("name", help="name of the operator and of the folder")
    crds = add("crds", help="print the CRDs of the operator's kinds as YAML")
    runs = add("run", help="run the operator until SIGTERM or Ctrl-C")
    for each in (crds, runs):
        each.add_argument("file", type=Path, help="the Python file that declares the operator")
    runs.add_argument("--kubeconfig", type=Path, help="by default that of kubectl; in a Pod, its ServiceAccount")
    runs.add_argument("--context", help="context of the kubeconfig")
    runs.add_argument("--namespace", help="reconcile objects in this namespace alone")
    runs.add_argument("--probes", type=_address, metavar="HOST:PORT", help="serve /healthz, /readyz and /metrics there")
    replicas = runs.add_mutually_exclusive_group()
    replicas.add_argument("--leader-elect", action="store_true", help="one of several replicas reconciles")
    replicas.add_argument("--shards", action="store_true", help="all replicas share the objects among them")
    runs.add_argument("--lease-namespace", help="namespace of the replicas' Leases; by default that of the Pod")
    runs.add_argument(
        "--log-format",
        choices=("json", "text"),
        default="text" if sys.stderr.isatty() else "json",
        help="by default text on a terminal, else json",
    )
    runs.add_argument(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        default="info",
        help="the least level that is logged",
    )
    return parser
