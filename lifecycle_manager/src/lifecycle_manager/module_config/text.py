"""The text of one Module CR. What is imported here is all that the process needs that makes the large ones.

Run by `python -m lifecycle_manager.module_config.text`: it answers each Task on its input until that ends.
"""

import os
import signal
import sys
import time
from collections.abc import Mapping
from typing import IO, Any, TypeVar

import msgspec

from kube_runtime import UNDECODABLE, JsonLimits, ResponseTooLarge, TextTooLong, dump_yaml
from kube_runtime.client.json_limits import check_json
from lifecycle_manager.contract.owned_fields import owned_status_fields, without_owned

__all__ = ["MAX_TEXT_BYTES", "MODULE_CR", "Made", "Task", "make", "receive", "send", "text_of"]

T = TypeVar("T")
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OF_THE_SERVER = frozenset({"managedFields", "resourceVersion"})
MIB = 1024 * 1024
MODULE_CR = JsonLimits(max_bytes=4 * MIB, max_nodes=50_000)
# etcd stores objects of up to 1.5 MiB. The text is one of several fields, and its size is that of the JSON string.
MAX_TEXT_BYTES = MIB
NICENESS = 5
_LENGTH_BYTES = 8


class Task(msgspec.Struct, frozen=True):
    """A Module CR as JSON. A list of the API server does not name the kind of its objects."""

    api_version: str
    kind: str
    raw: bytes


class Made(msgspec.Struct, frozen=True):
    """The text, or the reason why there is none, or neither where it could not be made now. It took CPU `seconds`."""

    text: str | None = None
    too_large: str = ""
    undecodable: str = ""
    seconds: float = 0.0


def make(task: Task) -> Made:
    """Return the text of a Module CR, or why it has none."""
    began = time.thread_time()
    made = _made(task)
    return msgspec.structs.replace(made, seconds=time.thread_time() - began)


def text_of(module_cr: Mapping[str, Any]) -> str:
    """Return a Module CR as YAML in a stable order, without what changes although its user changed nothing.

    That is the managed fields, the resource version, the annotation of kubectl apply, and the fields of the status that
    the Lifecycle Manager wrote. Raises TextTooLong.
    """
    metadata = {key: value for key, value in module_cr["metadata"].items() if key not in OF_THE_SERVER}
    annotations = metadata.pop("annotations", None)
    if isinstance(annotations, dict):
        annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        if annotations:
            metadata["annotations"] = annotations
    document = {**module_cr, "metadata": metadata}
    owned = owned_status_fields(module_cr["metadata"].get("managedFields"))
    if owned and (status := without_owned(document.pop("status", None), owned)) is not None:
        document["status"] = status
    return dump_yaml(document, max_bytes=MAX_TEXT_BYTES)


def send(stream: IO[bytes], message: msgspec.Struct) -> None:
    """Write a message to a pipe."""
    encoded = msgspec.msgpack.encode(message)
    stream.write(len(encoded).to_bytes(_LENGTH_BYTES))
    stream.write(encoded)
    stream.flush()


def receive(stream: IO[bytes], kind: type[T]) -> T | None:
    """Return the next message; None where there is none any more."""
    length = int.from_bytes(stream.read(_LENGTH_BYTES))
    encoded = stream.read(length)
    return msgspec.msgpack.decode(encoded, type=kind) if length and len(encoded) == length else None


def main() -> None:
    """Answer until the input ends, as it does with the process that started this one."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # that one ends first
    os.nice(NICENESS)
    while (task := receive(sys.stdin.buffer, Task)) is not None:
        send(sys.stdout.buffer, make(task))


def _made(task: Task) -> Made:
    try:
        check_json(task.raw, MODULE_CR)
        document = msgspec.json.decode(task.raw, type=dict[str, Any])
        return Made(text_of(document | {"apiVersion": task.api_version, "kind": task.kind}))
    except ResponseTooLarge as error:
        return Made(too_large=str(error))
    except TextTooLong:
        return Made(too_large=f"its text has more than {MAX_TEXT_BYTES} bytes")
    except UNDECODABLE as error:
        return Made(undecodable=str(error))


if __name__ == "__main__":
    main()
