"""The command `kube-runtime`: runs the operator in a file, and prints its CRDs."""

import argparse
import importlib.util
import logging
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from kube_crds import crd_of
from kube_runtime.client.client import Client
from kube_runtime.exceptions import AddressUnusable, KubeError
from kube_runtime.leases import LeaseSharding
from kube_runtime.manager import Manager
from kube_runtime.operator import Operator
from kube_runtime.running import run
from kube_runtime.sharding import ALONE, Sharding
from kube_runtime.yaml_output import dump_yaml

__all__ = ["JsonLines", "main"]


class OperatorMissing(Exception):
    """A file has no operator, or several."""


class JsonLines(logging.Formatter):
    """Formats each record as one line of JSON."""

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(),
            "level": record.levelname.lower(),
            "logger": record.name,
            "msg": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return msgspec.json.encode(line).decode()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    given = _parser().parse_args(arguments)
    try:
        operator = load_operator(given.file)
        if given.command == "crds":
            sys.stdout.write("---\n".join(dump_yaml(crd_of(kind)) for kind in operator.kinds))
        else:
            _run(operator, given)
    except (AddressUnusable, KubeError, OperatorMissing, OSError, TimeoutError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def load_operator(file: Path) -> Operator:
    """Return the one operator that a file declares. Raises OperatorMissing, and what the file raises."""
    spec = importlib.util.spec_from_file_location(file.stem, file)
    if spec is None or spec.loader is None:
        raise OperatorMissing(f"{file} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[file.stem] = module  # where msgspec and the descriptions find the classes
    spec.loader.exec_module(module)
    found = [each for each in vars(module).values() if isinstance(each, Operator)]
    if len(found) != 1:
        raise OperatorMissing(f"{file} declares {len(found)} operators: expected one `Operator(name)`")
    return found[0]


def _run(operator: Operator, given: argparse.Namespace) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if given.log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=given.log_level.upper(), handlers=[handler])

    def setup(manager: Manager) -> None:
        if given.share == "leader":
            operator.setup(manager, lambda _key: operator.name)
        else:
            operator.setup(manager)

    def sharding(client: Client) -> Sharding:
        if given.lease_namespace is None:
            return ALONE
        name = socket.gethostname()
        return LeaseSharding(client, namespace=given.lease_namespace, group=operator.name, name=name)

    run(
        setup,
        name=operator.name,
        namespace=given.namespace,
        kubeconfig=given.kubeconfig,
        context=given.context,
        probes=() if given.probes is None else (given.probes,),
        sharding=sharding,
    )


_TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


def _address(text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isdecimal():
        raise argparse.ArgumentTypeError(f"invalid address {text!r}: expected host:port")
    return host.strip("[]"), int(port)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="kube-runtime", description="Operators for Kubernetes in Python.")
    commands = parser.add_subparsers(dest="command", required=True)
    crds = commands.add_parser("crds", help="print the CRDs of the operator's kinds as YAML")
    runs = commands.add_parser("run", help="run the operator until SIGTERM or Ctrl-C")
    for each in (crds, runs):
        each.add_argument("file", type=Path, help="the Python file that declares the operator")
    runs.add_argument("--kubeconfig", type=Path, help="by default that of kubectl; in a Pod, its ServiceAccount")
    runs.add_argument("--context", help="context of the kubeconfig")
    runs.add_argument("--namespace", help="reconcile objects in this namespace alone")
    runs.add_argument("--probes", type=_address, metavar="HOST:PORT", help="serve /healthz, /readyz and /metrics there")
    runs.add_argument("--lease-namespace", help="namespace of the Leases of several replicas")
    runs.add_argument("--share", choices=("leader", "keys"), default="leader", help="one leads, or all share the keys")
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
