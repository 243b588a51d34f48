"""The Module CR of the demo as its user writes it, reads its status, and sees it with kubectl."""

from typing import Any
from urllib.parse import quote

import msgspec

from kube_runtime import Client, Resource
from kyma_demo.environment import infrastructure

NETWORK = "10.100.0.0/16"
TABLE = "application/json;as=Table;g=meta.k8s.io;v=v1"


class TableColumn(msgspec.Struct, frozen=True):
    """A column; one with a priority above 0 is shown by `-o wide` only."""

    name: str
    priority: int = 0


class TableRow(msgspec.Struct, frozen=True):
    """The cells of one object."""

    cells: tuple[Any, ...]


class TableResponse(msgspec.Struct, frozen=True, rename="camel"):
    """What the API server answers."""

    column_definitions: tuple[TableColumn, ...]
    rows: tuple[TableRow, ...]


async def kubectl_get(client: Client, resource: Resource[Any], name: str, namespace: str) -> str:
    """Return what `kubectl get` prints for one object. Raises KubeError.

    As for kubectl, the API server makes the table, from the columns of the CRD.
    """
    answer = await client.raw("GET", f"{resource.path(namespace)}/{quote(name)}", accept=TABLE)
    table = msgspec.json.decode(answer, type=TableResponse)
    shown = [number for number, column in enumerate(table.column_definitions) if column.priority == 0]
    lines = [[table.column_definitions[number].name.upper() for number in shown]]
    lines += [
        [str(row.cells[number] if row.cells[number] is not None else "") for number in shown] for row in table.rows
    ]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "   ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


def ready_of(module_cr: dict[str, Any]) -> tuple[bool, str, str]:
    """Return whether a Module CR is Ready, the reason and the message; nothing of an older generation."""
    status = module_cr.get("status", {})
    if status.get("observedGeneration") != module_cr["metadata"]["generation"]:
        return False, "", ""
    ready = next((each for each in status.get("conditions", ()) if each["type"] == "Ready"), None)
    return (ready["status"] == "True", ready["reason"], ready["message"]) if ready is not None else (False, "", "")


def network_of(module_cr: dict[str, Any]) -> str:
    """Return the network of the first peering."""
    return str(module_cr["spec"]["vpcPeerings"][0]["remoteNetwork"])


def with_network(network: str) -> dict[str, Any]:
    """Return the patch that changes the network of the only peering."""
    return {"spec": {"vpcPeerings": infrastructure("", {}, {"billing": network})["spec"]["vpcPeerings"]}}
