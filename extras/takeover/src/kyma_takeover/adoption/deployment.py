"""The Deployment of the former version: its image, its command line, and what each option is for this version."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from kyma_fleet.documents import Part
from kyma_takeover.flags import taken
from lifecycle_manager.rollout.maintenance import CONVENTIONAL
from lifecycle_manager.settings import Settings, SettingsInvalid, options
from lifecycle_manager_api import names

COMMAND = "/manager"
COMPONENT = "lifecycle-manager.kyma-project.io"
COMPONENT_LABEL = "app.kubernetes.io/component"


REPLICAS_BEFORE = f"{names.GROUP}/replicas-before"
"""On a Deployment that a takeover or the way back has scaled to zero: how many replicas it had."""


class Deployment(Part, frozen=True):
    """How a version is deployed.

    - `before`: how many replicas it had before it was scaled to zero; None where it was not
    - `has_policy`: a maintenance policy is mounted where the former version expects one
    """

    name: str
    image: str
    replicas: int
    running: int
    before: int | None
    arguments: tuple[str, ...]
    has_policy: bool

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> Self:
        """Describe a Deployment."""
        containers = _containers(document)
        manager = next((each for each in containers if each.get("name") == "manager"), containers[0])
        mounts = [str(each.get("mountPath", "")) for each in manager.get("volumeMounts") or ()]
        metadata, replicas = document["metadata"], document["spec"].get("replicas")
        before = (metadata.get("annotations") or {}).get(REPLICAS_BEFORE, "")
        return cls(
            name=metadata["name"],
            image=str(manager.get("image", "")),
            replicas=1 if replicas is None else int(replicas),
            running=int((document.get("status") or {}).get("replicas") or 0),
            before=int(before) if before.isdecimal() else None,
            arguments=(*(manager.get("command") or ())[1:], *(manager.get("args") or ())),
            has_policy=any(CONVENTIONAL.is_relative_to(each) for each in mounts if each),
        )


@dataclass(frozen=True, slots=True)
class FormerOption:
    """One option of the former version: what this version gets in its place, and why it is another thing.

    `refused`: this version does not start with it.
    """

    given: str
    becomes: str
    why: str = ""
    refused: bool = False


def former_deployments(documents: Iterable[Mapping[str, Any]]) -> list[Deployment]:
    """Return those of some Deployments that are of the former version: by their label, or by what they run."""
    return [Deployment.of(each) for each in documents if _is_former(each)]


def elects_leader(deployment: Deployment) -> bool:
    """Tell whether the former version holds its Lease while it works: by default it has none."""
    switches = [each.argument for each in taken(deployment.arguments) if each.option == "--leader-elect"]
    return switches[-1:] == ["--leader-elect"]


def options_of(arguments: Sequence[str]) -> list[FormerOption]:
    """Return what each option of a command line is for this version."""
    return [_option(each.option, each.argument, each.warning) for each in taken(arguments)]


def _option(name: str, argument: str | None, warning: str) -> FormerOption:
    if argument is None:
        return FormerOption(name, "", warning.partition(": ")[2])
    problem = _problem_with(argument)
    return FormerOption(name, argument, problem or warning, refused=bool(problem))


def _problem_with(argument: str) -> str:
    """Return why this version refuses an option; empty where it takes it."""
    name, _, value = argument.removeprefix("--").partition("=")
    if name.removeprefix("no-") not in options():
        return "this version has no such option"
    if not value:
        return ""
    try:
        Settings({name: value})
    except SettingsInvalid as error:
        # Rules that concern several options are checked with all of them.
        return next((problem for option, problem in error.problems if option), "")
    return ""


def _is_former(deployment: Mapping[str, Any]) -> bool:
    labels = deployment["metadata"].get("labels") or {}
    commands = [(each.get("command") or [""])[0] for each in _containers(deployment)]
    return labels.get(COMPONENT_LABEL) == COMPONENT or (
        COMMAND in commands and any("lifecycle-manager" in each.get("image", "") for each in _containers(deployment))
    )


def _containers(deployment: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    found: Sequence[Mapping[str, Any]] = deployment["spec"]["template"]["spec"]["containers"]
    return found
