"""Paths of state checks as who writes ModuleTemplates would break Lifecycle Manager with, and Module CRs for them."""

import random
from typing import Any

import msgspec

from lifecycle_manager.module_installation.state_checks import state_of
from lifecycle_manager_api import CustomStateCheck, State

PIECES = (
    ".status",
    "status",
    ".a",
    "[0]",
    "['a']",
    '["a"]',
    "..",
    "*",
    "[*]",
    "[?(@.a == 'x')]",
    "[?search(@, '(a+)+$')]",
    "[?match(@, '(.*)*x')]",
    "[0:99999999]",
    "[99999999999999999999]",
    "$",
    "@",
    "(",
    "[",
    "'",
    "\\",
    "\u0000",
    "\u00e4",
)


class Checked(msgspec.Struct, frozen=True):
    """A Module CR, and the checks that are evaluated for it."""

    module_cr: dict[str, Any]
    checks: tuple[CustomStateCheck, ...]


def hostile_checks(draw: random.Random) -> bytes:
    """Return checks of any path, and a Module CR that is as expensive as it can be."""
    paths = ["".join(draw.choices(PIECES, k=draw.randint(1, 6))) for _ in range(draw.choice((1, 3, 40)))]
    paths[0] = draw.choice((paths[0], paths[0] * 10_000, "status" + ".a" * draw.choice((31, 32, 50_000))))
    checks = [
        {"jsonPath": each, "value": draw.choice(("x", "true", "1", "y" * 10_000)), "mappedState": draw.choice([*State])}
        for each in paths
    ]
    tree: Any = draw.choice(("x", True, None, 1, 10**30, "a" * 200_000 + "!"))
    for _ in range(draw.choice((0, 1, 3)) if isinstance(tree, str) else draw.choice((0, 3, 12))):
        tree = draw.choice(([tree, tree], {"a": tree, "b": tree}, {"a": tree, "": tree}))
    return msgspec.json.encode({"module_cr": {"metadata": {}, "status": tree}, "checks": checks})


def check_state(sample: bytes) -> None:
    """Evaluate checks for a Module CR: there is a state, and a message that fits a condition."""
    checked = msgspec.json.decode(sample, type=Checked)
    state, message = state_of(checked.module_cr, checked.checks)
    assert state in {*State}, "there is no state"
    assert len(message) < 40_000, "the message is too long for a condition"
