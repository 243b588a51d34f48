"""The commands, their options and their help. Each imports what it needs late, so that `klm` starts quickly."""

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from kube_runtime import Client

NAMES_SHOWN = 200
COMPLETION_SECONDS = 2.0
KIND_NAMES = ("kymas", "modules", "releases", "manifests", "configs", "syncresources")
STATES = ("Ready", "Processing", "Warning", "Error", "Deleting", "Unmanaged")
OUTPUTS = ("table", "wide", "json", "yaml", "name")


def _complete_kyma(context: typer.Context, incomplete: str) -> list[str]:
    return _names_in_the_cluster(context, "kymas", incomplete)


def _complete_module(context: typer.Context, incomplete: str) -> list[str]:
    return _names_in_the_cluster(context, "releases", incomplete)


def _complete_name(context: typer.Context, incomplete: str) -> list[str]:
    kind = str(context.params.get("kind") or "kymas")
    return _names_in_the_cluster(context, "releases" if kind == "modules" else kind, incomplete)


def _names_in_the_cluster(context: typer.Context, kind: str, incomplete: str) -> list[str]:
    """Return some names that begin as typed; none where the control plane does not answer at once."""
    from kube_runtime import KubeError  # noqa: PLC0415
    from kyma_fleet.listing.kinds import kind_named  # noqa: PLC0415
    from kyma_fleet.running import Target  # noqa: PLC0415

    found = kind_named(kind)
    if found is None:
        return []

    async def read() -> list[str]:
        target = Target(context.params.get("kubeconfig"), context.params.get("context"))
        async with asyncio.timeout(COMPLETION_SECONDS), await target.client() as kcp:
            async for page in kcp.pages(found.resource, found.namespace, page_size=NAMES_SHOWN):
                return [each.metadata.name for each in page.items if each.metadata.name.startswith(incomplete)]
        return []

    try:
        return asyncio.run(read())
    except (KubeError, TimeoutError):
        return []


Kubeconfig = Annotated[
    Path | None, typer.Option(help="kubeconfig of the control plane; by default that of kubectl", show_default=False)
]
Context = Annotated[str | None, typer.Option(help="context of the kubeconfig", show_default=False)]
LeaseNamespace = Annotated[
    str, typer.Option(help="namespace of the replicas' Leases (--leader-election-namespace of klm run)")
]
KymaName = Annotated[str, typer.Argument(help="name of the Kyma", autocompletion=_complete_kyma, show_default=False)]


def _one_of(values: tuple[str, ...], what: str, given: str) -> str:
    found = next((each for each in values if each.lower() == given.lower()), None)
    if given and found is None:
        raise typer.BadParameter(f"{given!r} is not a {what}; choose one of {', '.join(values)}")
    return found or ""


def get(
    kind: Annotated[
        str,
        typer.Argument(
            help=f"what to list: {', '.join(KIND_NAMES)}",
            autocompletion=lambda incomplete: [each for each in KIND_NAMES if each.startswith(incomplete)],
            show_default=False,
        ),
    ],
    name: Annotated[
        str, typer.Argument(help="one of them; of modules and releases a module", autocompletion=_complete_name)
    ] = "",
    *,
    state: Annotated[
        str,
        typer.Option(
            help=f"in this state: {', '.join(STATES)}",
            autocompletion=lambda incomplete: [each for each in STATES if each.startswith(incomplete)],
        ),
    ] = "",
    kyma: Annotated[str, typer.Option(help="of this Kyma", autocompletion=_complete_kyma)] = "",
    module: Annotated[str, typer.Option(help="with or of this module", autocompletion=_complete_module)] = "",
    version: Annotated[str, typer.Option(help="with a module in this version")] = "",
    channel: Annotated[str, typer.Option(help="in this channel")] = "",
    region: Annotated[str, typer.Option(help="in this region")] = "",
    paused: Annotated[bool, typer.Option("--paused", help="paused ones, with who did it, when and why")] = False,
    labels: Annotated[str, typer.Option("--selector", "-l", help="label selector, as of kubectl")] = "",
    watch: Annotated[bool, typer.Option("--watch", "-w", help="show each change until Ctrl-C")] = False,
    output: Annotated[
        str,
        typer.Option(
            "--output",
            "-o",
            help=f"format: {', '.join(OUTPUTS)}",
            autocompletion=lambda incomplete: [each for each in OUTPUTS if each.startswith(incomplete)],
        ),
    ] = "table",
    namespace: Annotated[str, typer.Option("--namespace", "-n", help="namespace, where it is another one")] = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """List Kymas, their modules, releases, Manifests, ModuleConfigs or SyncResources.

    \b
    klm get kymas --state Error                  which clusters are broken
    klm get kymas --module keda --version 2.1.0  who has this version
    klm get kymas --paused                       who paused what, and why
    klm get modules keda --state Warning         a line for each cluster
    klm get manifests --kyma demo -o wide        with messages
    klm get kymas -o name | wc -l                for scripts; also json and yaml
    klm get kymas --region eu-central-1 --watch  follow changes
    """
    from kyma_fleet.listing.command import Listing, check_filters  # noqa: PLC0415
    from kyma_fleet.listing.formats import FORMATS, output_for  # noqa: PLC0415
    from kyma_fleet.listing.kinds import PAUSED_KYMAS, kind_named  # noqa: PLC0415
    from kyma_fleet.listing.selection import Selection  # noqa: PLC0415
    from kyma_fleet.problems import Problem  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    found = kind_named(kind)
    if found is None:
        raise typer.BadParameter(f"nothing is called {kind!r}; choose one of {', '.join(KIND_NAMES)}")
    _one_of(OUTPUTS, "format", output)
    selection = Selection(
        name=name,
        kyma=kyma,
        state=_one_of(STATES, "state", state),
        module=module,
        version=version,
        channel=channel,
        region=region,
        paused=paused,
        labels=labels,
    )
    try:
        check_filters(found, selection)
    except Problem as problem:
        raise typer.BadParameter(str(problem)) from None
    listed = PAUSED_KYMAS if paused and found.name == "kymas" and output == "table" else found
    screen = Screen.of_process()
    form = next(each for each in FORMATS if each == output.lower())
    written = output_for(form, listed, selection, screen, watch=watch)
    where = namespace or listed.namespace
    run(
        Target(kubeconfig, context),
        lambda kcp: Listing(kcp, listed, selection, where, written, screen).run(watch=watch),
    )


def status(
    watch: Annotated[bool, typer.Option("--watch", "-w", help="show it again and again until Ctrl-C")] = False,
    lease_namespace: LeaseNamespace = "kcp-system-leases",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show how the fleet is: states, modules and versions, rollouts, the worst clusters, silent Watchers, replicas.

    The exit code is 1 where something is wrong, 0 where nothing is, and 2 where
    it can't be read.

    \b
    klm status                     once
    klm status --watch             refreshed in place
    klm status || alert-somebody   in a script
    """
    from kyma_fleet.overview import command  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.status(kcp, screen, lease_namespace, watch=watch))


def explain(
    kyma: KymaName,
    subject: Annotated[
        str,
        typer.Argument(
            metavar="[MODULE|OBJECT]",
            help="a module, or an object in the cluster as kind/name or kind/namespace/name",
            autocompletion=_complete_module,
        ),
    ] = "",
    *,
    rollout_max_delay: Annotated[
        str, typer.Option(help="--module-upgrade-rollout-max-delay of klm run, for the time of a rollout's turn")
    ] = "5m",
    maintenance_policy: Annotated[
        Path | None,
        typer.Option(help="--maintenance-policy of klm run, for windows that are not reported yet", show_default=False),
    ] = None,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Explain why a cluster, a module or an object is as it is: the chain of causes, the last Events, what to do.

    Nothing is written. The rules are those by which Lifecycle Manager decides.
    The exit code is 1 where something is not in order.

    \b
    klm explain demo                               all of a cluster
    klm explain demo keda                          one module
    klm explain demo deployment/keda-operator      one object, and the module that has it
    klm explain demo configmap/kyma-system/limits  the same, with its namespace
    """
    from kyma_fleet.explanation import command  # noqa: PLC0415
    from kyma_fleet.problems import Problem  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    try:
        rules = command.rules_of(rollout_max_delay, maintenance_policy)
    except Problem as problem:
        raise typer.BadParameter(str(problem)) from None
    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.explain(kcp, screen, kyma, subject, rules))


def events(kyma: KymaName, kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """List the Events of a Kyma and of its Manifests, ModuleConfigs and SyncResources, the newest last.

    \b
    klm events demo
    klm events demo | grep Warning
    """
    from kyma_fleet.explanation import command  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.events(kcp, screen, kyma))


Reason = Annotated[str, typer.Option(help="why, for those who find it later", show_default=False)]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="do not ask before more than one cluster is changed")]


def _steer(
    verb: Literal["pause", "resume", "reconcile"],
    subjects: tuple[str, str, bool],
    reason: str,
    kubeconfig: Path | None,
    context: str | None,
    *,
    yes: bool,
) -> None:
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415
    from kyma_fleet.steering import command  # noqa: PLC0415

    kyma, module, everything = subjects
    if not (kyma or module or everything):
        raise typer.BadParameter("name a Kyma, or --module, or --all")
    if everything and (kyma or module):
        raise typer.BadParameter("--all is everything: give no Kyma and no --module with it")
    screen = Screen.of_process()
    meant = command.Subjects(kyma, module, everything)

    def confirm(question: str) -> bool:
        return yes or (sys.stdin.isatty() and typer.confirm(question))

    run(
        Target(kubeconfig, context),
        lambda kcp: command.steer(kcp, screen, verb, meant, reason=reason, confirm=confirm),
    )


MaybeKyma = Annotated[str, typer.Argument(help="name of the Kyma", autocompletion=_complete_kyma)]
OfModule = Annotated[
    str,
    typer.Option("--module", help="this module; without a Kyma in all clusters", autocompletion=_complete_module),
]
Everything = Annotated[bool, typer.Option("--all", help="all Kymas and all their modules")]


def pause(
    kyma: MaybeKyma = "",
    *,
    reason: Annotated[str, typer.Option(help="why, for those who find it later", show_default=False)],
    module: OfModule = "",
    everything: Everything = False,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Have Lifecycle Manager leave a cluster, a module or the fleet as it is.

    A paused cluster gets no module installed, upgraded, repaired or removed.
    What its users change in Module CRs still travels. Who, when and why is in
    annotations, in an Event, and in `klm get kymas --paused`.

    \b
    klm pause demo --reason "incident 4711"
    klm pause demo --module keda --reason "waits for a fix"
    klm pause --module keda --reason "2.1.0 is broken"   in every cluster
    klm pause --all --reason "maintenance of the registry"
    """
    _steer("pause", (kyma, module, everything), reason, kubeconfig, context, yes=yes)


def resume(
    kyma: MaybeKyma = "",
    *,
    reason: Reason = "",
    module: OfModule = "",
    everything: Everything = False,
    yes: Yes = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """End a pause: the cluster, the module or the fleet is reconciled again at once.

    \b
    klm resume demo                 with all its modules
    klm resume demo --module keda
    klm resume --all --yes
    """
    _steer("resume", (kyma, module, everything), reason, kubeconfig, context, yes=yes)


def reconcile(
    kyma: KymaName,
    module: Annotated[str, typer.Argument(help="a module of it", autocompletion=_complete_module)] = "",
    *,
    reason: Reason = "",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Have Lifecycle Manager reconcile a Kyma, or one of its modules, now instead of at the next interval.

    \b
    klm reconcile demo
    klm reconcile demo keda --reason "after the fix of its registry"
    """
    _steer("reconcile", (kyma, module, False), reason, kubeconfig, context, yes=True)


def diff(
    kyma: KymaName,
    module: Annotated[str, typer.Argument(help="a module of it", autocompletion=_complete_module, show_default=False)],
    *,
    namespace: Annotated[
        str, typer.Option("--sync-namespace", help="--sync-namespace of klm run, for objects that name none")
    ] = "kyma-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what Lifecycle Manager would change in a cluster: the objects of a module as wanted against those there.

    It is a dry run on the cluster's API server, with the access Secret; nothing
    is changed. Values of Secrets are not shown. The exit code is 1 where
    something differs, 0 where nothing does, and 2 where it can't be compared.

    \b
    klm diff demo keda
    klm diff demo keda || klm reconcile demo keda
    """
    from kyma_fleet.comparison import command  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.diff(kcp, screen, kyma, module, namespace))


def check(
    before_installation: Annotated[
        bool, typer.Option("--pre", help="check what an installation needs, before there is one")
    ] = False,
    lease_namespace: LeaseNamespace = "kcp-system-leases",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Check the control plane: versions, clocks, rights, CRDs, policies, webhooks, certificates, replicas, clusters.

    What you may not read is not checked, and said so. The exit code is 1 where
    a check fails.

    \b
    klm check          an installation
    klm check --pre    a cluster before the installation
    """
    from kyma_fleet.checking import command  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    screen = Screen.of_process()
    run(
        Target(kubeconfig, context),
        lambda kcp: command.check(kcp, screen, lease_namespace, before_installation=before_installation),
    )


def version(kubeconfig: Kubeconfig = None, context: Context = None) -> None:
    """Print the versions of klm, of Lifecycle Manager in the control plane, and of its API server.

    \b
    klm version
    klm --version    without asking the control plane
    """
    from kyma_fleet.checking import command  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.print_version(kcp, screen))


def preview(
    module: Annotated[str, typer.Argument(help="the module", autocompletion=_complete_module, show_default=False)],
    version: Annotated[str, typer.Argument(help="its version; the ModuleTemplate must exist", show_default=False)],
    *,
    channel: Annotated[str, typer.Option(help="the channel that would get it; by default all of the module")] = "",
    sample: Annotated[
        int, typer.Option(min=0, max=100, help="compare the objects in so many clusters, too (needs klm-skr-access)")
    ] = 0,
    output: Annotated[str, typer.Option("--output", "-o", help="format: table, markdown")] = "table",
    rollout_max_delay: Annotated[str, typer.Option(help="--module-upgrade-rollout-max-delay of klm run")] = "5m",
    maintenance_policy: Annotated[
        Path | None, typer.Option(help="--maintenance-policy of klm run", show_default=False)
    ] = None,
    namespace: Annotated[
        str, typer.Option("--sync-namespace", help="--sync-namespace of klm run, for objects that name none")
    ] = "kyma-system",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Show what a release would change: which Kymas would get it and when, and which are held back and why.

    Nothing is written. The rules are those by which Lifecycle Manager decides.

    \b
    klm preview keda 2.1.0 --channel fast
    klm preview keda 2.1.0 --sample 3                the objects in three clusters
    klm preview keda 2.1.0 -o markdown > review.md
    """
    from kyma_fleet.explanation.command import rules_of  # noqa: PLC0415
    from kyma_fleet.preview import command  # noqa: PLC0415
    from kyma_fleet.preview.plan import Release  # noqa: PLC0415
    from kyma_fleet.problems import Problem  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    form: Literal["table", "markdown"] = "markdown" if output == "markdown" else "table"
    _one_of(("table", "markdown"), "format", output)
    try:
        rules = rules_of(rollout_max_delay, maintenance_policy)
    except Problem as problem:
        raise typer.BadParameter(str(problem)) from None
    screen = Screen.of_process()
    release = Release(module, version, channel)
    run(
        Target(kubeconfig, context),
        lambda kcp: command.preview(kcp, screen, release, rules, sample=sample, output=form, namespace=namespace),
    )


def trace(
    kyma: KymaName,
    module: Annotated[str, typer.Argument(help="a module of it", autocompletion=_complete_module)] = "",
    *,
    everything: Annotated[
        bool, typer.Option("--all", help="everything that is recorded, not the last change alone")
    ] = False,
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Draw when what was written for a Kyma or one of its modules: by the user, Lifecycle Manager, the Module Manager.

    It is read from the objects themselves and from Events, which record writes to the second.

    \b
    klm trace demo keda    the last change of a module
    klm trace demo --all   everything that is recorded
    """
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415
    from kyma_fleet.timeline import command  # noqa: PLC0415

    screen = Screen.of_process()
    run(Target(kubeconfig, context), lambda kcp: command.trace(kcp, screen, kyma, module, everything=everything))


def adopt(
    kymas: Annotated[
        list[str] | None,
        typer.Argument(help="with --kyma-selector: these Kymas", autocompletion=_complete_kyma, show_default=False),
    ] = None,
    *,
    check: Annotated[bool, typer.Option("--check", help="report what a takeover finds and changes; write nothing")] = (
        False
    ),
    back: Annotated[bool, typer.Option("--back", help="give the control plane back to the former version")] = False,
    kyma_selector: Annotated[
        list[str] | None,
        typer.Option(help="split the fleet: the labels key=value of --kyma-selector of klm run", show_default=False),
    ] = None,
    labels: Annotated[str, typer.Option("--selector", "-l", help="with --kyma-selector: the Kymas with labels")] = "",
    everything: Annotated[bool, typer.Option("--all", help="with --kyma-selector: all Kymas")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="do not ask before each step")] = False,
    sample: Annotated[
        int, typer.Option(min=0, max=100, help="with --check: read so many clusters, too, chosen at random")
    ] = 0,
    output: Annotated[str, typer.Option("--output", "-o", help="with --check: format: table, json")] = "table",
    ca_namespace: Annotated[
        str, typer.Option(help="namespace of the CA of the former version (--self-signed-cert-issuer-namespace)")
    ] = "istio-system",
    lease_namespace: LeaseNamespace = "kcp-system-leases",
    kubeconfig: Kubeconfig = None,
    context: Context = None,
) -> None:
    """Take a control plane over from the Lifecycle Manager in Go, or give it back.

    Each step is asked for, and skipped where it is done, so a run that was
    interrupted goes on with the next one. It needs the rights of an
    administrator of the control plane. The exit code of --check is 1 where
    something is in the way, that of --back where a cluster could not be given
    back.

    \b
    klm adopt --check --sample 5   what there is, what becomes of it, in five clusters too
    klm adopt                      stop the former version, let this one work
    klm adopt --back               stop this version, let the former one work
    klm adopt --kyma-selector example.com/by=python demo         one Kyma of a split fleet
    klm adopt --kyma-selector example.com/by=python -l batch=1   a batch of Kymas
    klm adopt --kyma-selector example.com/by=python --back demo  and back
    """
    from kyma_fleet.adoption import command  # noqa: PLC0415
    from kyma_fleet.adoption.steps import Steps, Subjects  # noqa: PLC0415
    from kyma_fleet.running import Target, run  # noqa: PLC0415
    from kyma_fleet.screen import Screen  # noqa: PLC0415

    form = _one_of(("table", "json"), "format", output)
    chosen = sum(map(bool, (kymas, labels, everything)))
    if check and (back or kyma_selector):
        raise typer.BadParameter("--check writes nothing: give neither --back nor --kyma-selector with it")
    if chosen > 1 or bool(kyma_selector) != bool(chosen):
        raise typer.BadParameter("--kyma-selector needs one of Kymas, -l and --all, and they need it")
    if any(not each.partition("=")[1] for each in kyma_selector or ()):
        raise typer.BadParameter("--kyma-selector: expected key=value")
    screen = Screen.of_process()
    target = Target(kubeconfig, context)
    if check:
        run(
            target,
            lambda kcp: command.check(
                kcp,
                screen,
                sample=sample,
                lease_namespace=lease_namespace,
                ca_namespace=ca_namespace,
                as_document=form == "json",
            ),
        )
    split = {key: value for key, _, value in (each.partition("=") for each in kyma_selector or ())}
    subjects = Subjects(tuple(kymas or ()), labels, split or None)

    def confirm(question: str) -> bool:
        return yes or (sys.stdin.isatty() and typer.confirm(question))

    async def steps(kcp: "Client") -> int:
        taken = Steps(kcp, screen, subjects, confirm, lease_namespace)
        return await (taken.back() if back else taken.adopt())

    run(target, steps)
