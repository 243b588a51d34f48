"""The options that several commands have, and the completion of names from the control plane."""

from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches
from inspect import Parameter, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from kyma_fleet.listing.names import PATHS, full_name

if TYPE_CHECKING:
    from kube_runtime import Client
    from kyma_fleet.screen import Screen


def complete_kyma(context: typer.Context, incomplete: str) -> list[str]:
    return _names_in_the_cluster(context, "kymas", incomplete)


def complete_module(context: typer.Context, incomplete: str) -> list[str]:
    return _names_in_the_cluster(context, "releases", incomplete)


def complete_rollout(context: typer.Context, incomplete: str) -> list[str]:
    return _names_in_the_cluster(context, "rollouts", incomplete)


def complete_name(context: typer.Context, incomplete: str) -> list[str]:
    kind = full_name(str(context.params.get("kind"))) or ""
    return _names_in_the_cluster(context, "releases" if kind == "modules" else kind, incomplete)


def _names_in_the_cluster(context: typer.Context, kind: str, incomplete: str) -> list[str]:
    from kyma_fleet.cli.completion import names_at

    of = "kcp_" if "kcp_kubeconfig" in context.params else ""
    given = context.params.get(f"{of}kubeconfig")
    kubeconfig = Path(given).expanduser() if given else None
    return names_at(PATHS[kind], incomplete, kubeconfig, context.params.get(f"{of}context")) if kind in PATHS else []


Kubeconfig = Annotated[
    Path | None, typer.Option(help="kubeconfig of the control plane; by default that of kubectl", show_default=False)
]
Context = Annotated[str | None, typer.Option(help="context of the kubeconfig", show_default=False)]
OUTPUT = typer.Option("--output", "-o", case_sensitive=False, help="format")
Output = Annotated[Literal["table", "wide", "json", "yaml", "name"], OUTPUT]
LeaseNamespace = Annotated[
    str, typer.Option(help="namespace of the replicas' Leases (--leader-election-namespace of klm run)")
]
KymaName = Annotated[str, typer.Argument(help="name of the Kyma", autocompletion=complete_kyma, show_default=False)]


Action = Callable[["Client", "Screen"], Awaitable[int]]
"""What a command does with a client of the control plane and the screen; it returns the exit code."""


def on_control_plane(declared: Callable[..., Action], *, output: Any = Output) -> Callable[..., None]:
    """Return the command that carries out what a function returns; it has `--output`, `--kubeconfig`, `--context`, too.

    Errors of the usage that the function raises are reported before a kubeconfig is read.
    """

    def command(**given: Any) -> None:
        target = given.pop("kubeconfig"), given.pop("context"), given.pop("output")
        run(*target, declared(**given))

    options: Mapping[str, tuple[Any, Any]] = {
        "output": (output, "table"),
        "kubeconfig": (Kubeconfig, None),
        "context": (Context, None),
    }
    own = signature(declared)
    added = (
        Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for name, (kind, default) in options.items()
    )
    command.__name__, command.__doc__ = declared.__name__, declared.__doc__
    command.__signature__ = own.replace(parameters=[*own.parameters.values(), *added])  # type: ignore[attr-defined]
    return command


def run(
    kubeconfig: Path | None,
    context: str | None,
    output: str,
    action: Action,
    *,
    otherwise: "Callable[[Screen], None]" = lambda _: None,
    options: str = "--",
) -> None:
    """Run a command with a client of the control plane, and a screen of a format; leave with its exit code."""
    from kyma_fleet.running import run as run_with
    from kyma_fleet.screen import Screen

    screen = Screen.of_process(output)
    run_with(kubeconfig, context, lambda kcp: action(kcp, screen), otherwise=lambda: otherwise(screen), options=options)


@contextmanager
def usage_errors() -> Iterator[None]:
    """Have a problem with what was given be one of the command line."""
    from kyma_fleet.problems import Problem

    try:
        yield
    except (Problem, ValueError) as problem:
        raise typer.BadParameter(str(problem)) from None


def one_of(values: tuple[str, ...], what: str, given: str) -> str:
    found = next((each for each in values if each.lower() == given.lower()), None)
    if given and found is None:
        raise unknown(values, what, given)
    return found or ""


def unknown(values: tuple[str, ...], what: str, given: str) -> typer.BadParameter:
    close = get_close_matches(given.lower(), values, n=1)
    meant = f"did you mean {close[0]}? " if close else ""
    return typer.BadParameter(f"{given!r} is not a {what}; {meant}choose one of {', '.join(values)}")
