"""The command that takes a control plane over from the former version."""

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from kyma_fleet.cli.options import Context, Kubeconfig, LeaseNamespace, Output, complete_kyma

if TYPE_CHECKING:
    from kube_runtime import Client


def adopt(
    kymas: Annotated[
        list[str] | None,
        typer.Argument(help="with --kyma-selector: these Kymas", autocompletion=complete_kyma, show_default=False),
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="report what a takeover finds and changes; write nothing")] = (
        False
    ),
    back: Annotated[bool, typer.Option("--back", help="give the control plane back to the former version")] = False,
    kyma_selector: Annotated[
        list[str] | None,
        typer.Option(
            metavar="<key=value>", help="split the fleet: the labels of --kyma-selector of klm run", show_default=False
        ),
    ] = None,
    labels: Annotated[str, typer.Option("--selector", "-l", help="with --kyma-selector: the Kymas with labels")] = "",
    everything: Annotated[bool, typer.Option("--all", help="with --kyma-selector: all Kymas")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask before each step")] = False,
    sample: Annotated[
        int, typer.Option(min=0, max=100, help="with --check: read so many clusters, too, chosen at random")
    ] = 0,
    where_possible: Annotated[
        bool, typer.Option("--where-possible", help="with --back: give back the others where clusters can't be")
    ] = False,
    insecure: Annotated[
        bool,
        typer.Option(
            "--allow-insecure-kubeconfigs",
            help="access Secrets may run commands and read files here, and leave TLS unverified, as with klm run",
        ),
    ] = False,
    output: Output = "table",
    ca_namespace: Annotated[
        str, typer.Option(help="namespace of the CA of the former version (--self-signed-cert-issuer-namespace)")
    ] = "istio-system",
    lease_namespace: LeaseNamespace = "kcp-system-leases",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Take over from the Lifecycle Manager in Go, or give back.

    Each step is asked for, and skipped where it is done, so a run that was
    interrupted goes on with the next one. It needs the rights of an
    administrator of the control plane. The exit code of --check is 1 where
    something is in the way, that of --back where a cluster could not be given
    back. --back reads all clusters first, and changes nothing unless each can
    be given back.

    \b
    klm adopt --check --sample 5   what becomes of what there is; reads 5 clusters
    klm adopt                      stop the former version, let this one work
    klm adopt --back               stop this version, let the former one work

    \b
    klm adopt --kyma-selector by=python demo          one Kyma of a split fleet
    klm adopt --kyma-selector by=python -l batch=1    a batch of Kymas
    klm adopt --kyma-selector by=python --back demo   and back
    """
    from pydantic import ValidationError

    from kube_runtime import KubeconfigPolicy
    from kyma_fleet.asking import confirmed
    from kyma_fleet.running import run
    from kyma_fleet.screen import Screen
    from kyma_takeover.adoption import command
    from kyma_takeover.adoption.steps import AdoptionScope, AdoptionSteps
    from kyma_takeover.settings import TakeoverSettings

    chosen = sum(map(bool, (kymas, labels, everything)))
    if check and (back or kyma_selector):
        raise typer.BadParameter("--check writes nothing: give neither --back nor --kyma-selector with it")
    if output != "table" and not check:
        raise typer.BadParameter("--output belongs to --check: the steps are asked for one by one")
    if where_possible and not back:
        raise typer.BadParameter("--where-possible belongs to --back")
    if chosen > 1 or bool(kyma_selector) != bool(chosen):
        raise typer.BadParameter("--kyma-selector needs one of Kymas, -l and --all, and they need it")
    try:
        split = TakeoverSettings.model_validate({"kyma_selector": kyma_selector or ()}).labels
    except ValidationError as error:
        raise typer.BadParameter(f"--kyma-selector: {error.errors()[0]['msg']}") from None
    if kyma_selector and not split:
        raise typer.BadParameter("--kyma-selector: expected key=value")
    screen = Screen.of_process(output)
    policy = KubeconfigPolicy.permissive() if insecure else KubeconfigPolicy.strict()
    if check:
        run(
            kubeconfig,
            context,
            lambda kcp: command.check(
                kcp,
                screen,
                sample=sample,
                lease_namespace=lease_namespace,
                ca_namespace=ca_namespace,
                policy=policy,
            ),
        )
    subjects = AdoptionScope(tuple(kymas or ()), labels, split or None)

    async def steps(kcp: "Client") -> int:
        taken = AdoptionSteps(
            kcp, screen, subjects, partial(confirmed, yes=yes), lease_namespace, policy, where_possible
        )
        return await (taken.back() if back else taken.adopt())

    run(kubeconfig, context, steps)
