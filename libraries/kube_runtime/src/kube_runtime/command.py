"""What the command `kube-runtime` does: it creates an operator's project, runs an operator, and prints its CRDs."""

import argparse
import logging
import re
import socket
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import msgspec

from kube_crds import crd_of
from kube_runtime.client.client import Client
from kube_runtime.client.kubeconfig import namespace_of_pod
from kube_runtime.controller.groups import leaves
from kube_runtime.exceptions import AddressUnusable, KubeError, TriggerMistaken
from kube_runtime.leases.lease_sharding import LeaseSharding
from kube_runtime.manager import Manager
from kube_runtime.operator import OPERATOR_NAME, Operator
from kube_runtime.project import bounds_of, load_file, render_project, write_files
from kube_runtime.running import run
from kube_runtime.sharding import ALONE, Sharding
from kube_runtime.yaml_output import dump_yaml


class OperatorMistaken(Exception):
    """A file has no operator, or several, or the options do not fit it."""


_FORESEEN = (AddressUnusable, KubeError, OperatorMistaken, OSError, TimeoutError, TriggerMistaken)


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


def execute(given: argparse.Namespace) -> int:
    """Run the command that was given; return its exit code."""
    try:
        if given.command == "new":
            _new(given.name)
            return 0
        operator = load_operator(given.file)
        if given.command == "crds":
            sys.stdout.write("---\n".join(dump_yaml(crd_of(kind)) for kind in operator.kinds))
        else:
            _run(operator, given)
    except (ExceptionGroup, *_FORESEEN) as error:
        causes = leaves(error) if isinstance(error, ExceptionGroup) else [error]
        if not all(isinstance(each, _FORESEEN) for each in causes):
            raise
        sys.stderr.writelines(f"error: {each}\n" for each in causes)
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

    def setup(manager: Manager) -> None:
        if given.shards:
            operator.setup(manager)
        else:
            operator.setup(manager, lambda _key: operator.name)

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
