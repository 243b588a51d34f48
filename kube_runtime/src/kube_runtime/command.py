"""The command `kube-runtime`: creates an operator's project, runs the operator in a file, and prints its CRDs."""

import argparse
import logging
import re
import socket
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec

from kube_crds import crd_of
from kube_runtime.client.client import Client
from kube_runtime.client.kubeconfig import namespace_of_pod
from kube_runtime.exceptions import AddressUnusable, KubeError, TriggerMistaken
from kube_runtime.leases import LeaseSharding
from kube_runtime.manager import Manager
from kube_runtime.operator import OPERATOR_NAME, Operator
from kube_runtime.project import bounds_of, load_file, render_project, write_files
from kube_runtime.resource import ObjectKey
from kube_runtime.running import run
from kube_runtime.sharding import ALONE, Sharding
from kube_runtime.yaml_output import dump_yaml

__all__ = ["JsonLines", "load_operator", "main", "parser"]


class OperatorMistaken(Exception):
    """A file has no operator, or several, or the options do not fit it."""


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
    given = parser().parse_args(arguments)
    try:
        if given.command == "new":
            _new(given.name)
            return 0
        operator = load_operator(given.file)
        if given.command == "crds":
            sys.stdout.write("---\n".join(dump_yaml(crd_of(kind)) for kind in operator.kinds))
        else:
            _run(operator, given)
    except (AddressUnusable, KubeError, OperatorMistaken, OSError, TimeoutError, TriggerMistaken) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    return 0


def load_operator(file: Path) -> Operator:
    """Return the one operator that a file declares. Raises OperatorMistaken, and what the file raises."""
    try:
        module = load_file(file)
    except ImportError as error:
        if error.name is not None:
            raise  # of an import in the file
        raise OperatorMistaken(str(error)) from None
    found = [each for each in vars(module).values() if isinstance(each, Operator)]
    if len(found) != 1:
        raise OperatorMistaken(f"{file} declares {len(found)} operators: expected one `Operator(name)`")
    return found[0]


def _new(name: str) -> None:
    if not OPERATOR_NAME.fullmatch(name):
        raise OperatorMistaken(f"invalid name {name!r}: expected {OPERATOR_NAME.pattern}")
    kind = re.sub("(?<=[^s])s$", "", "".join(part.capitalize() for part in name.split("-")))
    values = {
        "name": name,
        "module": name.replace("-", "_"),
        "kind": kind,
        "plural": f"{kind.lower()}s",
        "bounds": bounds_of(version("kube-runtime")),
    }
    written = write_files(Path(name), render_project(files("kube_runtime.project") / "template", values))
    sys.stdout.write("".join(f"{file}\n" for file in written))
    sys.stdout.write(f"Next: cd {name}, pytest, and uv lock for the Dockerfile\n")


def _run(operator: Operator, given: argparse.Namespace) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(JsonLines() if given.log_format == "json" else logging.Formatter(_TEXT))
    logging.basicConfig(level=given.log_level.upper(), handlers=[handler])
    lease_namespace = given.lease_namespace or namespace_of_pod()
    if (given.leader_elect or given.shards) and lease_namespace is None:
        raise OperatorMistaken("outside of a Pod, --leader-elect and --shards need --lease-namespace")
    if operator.webhooks and given.webhooks is None:
        raise OperatorMistaken(f"{given.file} declares webhooks: expected --webhooks HOST:PORT")

    def setup(manager: Manager) -> None:
        if given.shards:
            operator.setup(manager)
        else:
            operator.setup(manager, lambda _key: operator.name)
        if operator.webhooks:
            from kube_runtime.admission.serving import WebhookServer  # noqa: PLC0415 - for these operators alone

            server = WebhookServer(operator.name, operator.webhooks, given.webhooks, given.webhook_service)
            server.setup(manager, given.namespace)

    def sharding(client: Client) -> Sharding:
        if lease_namespace is None or not (given.leader_elect or given.shards):
            return ALONE
        return LeaseSharding(client, namespace=lease_namespace, group=operator.name, name=socket.gethostname())

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


def _service(text: str) -> ObjectKey:
    namespace, _, name = text.partition("/")
    if not namespace or not name:
        raise argparse.ArgumentTypeError(f"invalid Service {text!r}: expected NAMESPACE/NAME")
    return ObjectKey(namespace, name)


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
    runs.add_argument("--webhooks", type=_address, metavar="HOST:PORT", help="serve validation and mutation there")
    runs.add_argument("--webhook-service", type=_service, metavar="NAMESPACE/NAME", help="the Service that leads there")
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
