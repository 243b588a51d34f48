"""The steps of a takeover, and of the way back: one after the other, each confirmed, and each done only where needed.

So a command that was interrupted, or that could not do everything, is run again and goes on.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from kube_runtime import Client, KubeconfigPolicy, KubeError, NotFound, Resource
from kube_runtime.client.kubeconfig import STRICT
from kyma_fleet.checking.command import DEPLOYMENTS, OUR_DEPLOYMENTS
from kyma_fleet.problems import Problem
from kyma_fleet.replicas import read_replicas
from kyma_fleet.running import each_of, once_answered
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from kyma_takeover.adoption.cluster import CLUSTER_ERRORS
from kyma_takeover.adoption.deployment import REPLICAS_BEFORE, Deployment, former_deployments
from kyma_takeover.adoption.giving_back import FIELD_MANAGER, GivingBack
from kyma_takeover.adoption.reading import access_secrets, bare, former_lease
from kyma_takeover.certificates import CA_SECRET
from kyma_takeover.lease import HOLDER, LEASE, LEASES, holder_of
from lifecycle_manager.contract.resources import KYMAS, MANIFESTS, RAW_KYMAS, SECRETS
from lifecycle_manager_api import ObjectMeta, names
from lifecycle_manager_api.conditions import counted

T = TypeVar("T")
LABELLED_BY = f"{names.GROUP}/labelled-by"
"""On access Secrets: `klm` where the label of this version is by the takeover; `--back` removes it."""
EVERY_VERSION = "every-version"
POLL_SECONDS = 1.0
MAX_WAIT_SECONDS = 300.0
MAX_PASSES = 5
SHOWN = 20
Patch = dict[str, Any]


@dataclass(frozen=True, slots=True)
class AdoptionScope:
    """Which Kymas: by name, by a label selector, or all. `split`: the labels by which this version selects Kymas.

    Where `split` is empty, the whole control plane changes hands.
    """

    kymas: tuple[str, ...] = ()
    selector: str = ""
    split: Mapping[str, str] | None = None


@dataclass(frozen=True)
class AdoptionSteps:
    """Carries steps out. `confirm` gets a question before each.

    `policy`: what kubeconfigs in access Secrets may do. `where_possible`: give back the others where clusters can't be.
    """

    kcp: Client
    screen: Screen
    subjects: AdoptionScope
    confirm: Callable[[str], bool]
    lease_namespace: str
    policy: KubeconfigPolicy = STRICT
    where_possible: bool = False

    async def adopt(self) -> int:
        """Do what a takeover needs an administrator for."""
        if self.subjects.split is None:
            await self._refuse_strangers()
        chosen = await self._chosen()
        await self._label_secrets(chosen)
        if self.subjects.split is not None:
            await self._keep_off(chosen, self.subjects.split)
            return 0
        await self._scale(await self._former(), to_zero=True, what="the former version")
        await self._until(self._former_holder, "the Lease of the former version runs out")
        await self._scale(await self._ours(), to_zero=False, what="this version")
        self._say("this version may work: install it now, if it is not")
        return 0

    async def back(self) -> int:
        """Give Kymas back to the former version. Returns 1 where a cluster could not be given back."""
        whole, chosen = self.subjects.split is None, await self._chosen()
        if not self.where_possible:
            await self._refuse_clusters(chosen)
        if whole:
            await self._scale(await self._ours(), to_zero=True, what="this version")
            await self._until(self._our_holder, "the replicas of this version end")
        else:
            await self._patch_kymas("keep both versions from", chosen, _kept_from_both)
        failed = await self._give_back(chosen)
        if whole:
            await GivingBack(self.kcp, self.policy).templates()
            await self._delete_ca()
        await self._unlabel_secrets(chosen)
        await self._unmark_manifests(chosen)
        await self._patch_kymas("give back", chosen, self._given_back)
        if whole:
            await self._release_lease()
            await self._scale(await self._former(), to_zero=False, what="the former version")
            if not any(each.replicas for each in await self._former()):
                self._say("no Deployment of the former version has replicas: scale it up, for nothing works until then")
        if failed:
            self._say(f"{counted(failed, 'cluster')} not given back: put that in order, then run this again")
        return 1 if failed else 0

    async def _chosen(self) -> frozenset[str]:
        if self.subjects.kymas:
            found = [await self.kcp.get(bare(KYMAS), name, names.KCP_NAMESPACE) for name in self.subjects.kymas]
            return frozenset(each.metadata.name for each in found)
        selector = self.subjects.selector or None
        listed = await self.kcp.list_metadata(bare(KYMAS), names.KCP_NAMESPACE, label_selector=selector)
        chosen = frozenset(each.metadata.name for each in listed)
        if self.subjects.selector and not chosen:
            raise Problem(f"no Kyma in {names.KCP_NAMESPACE} has the labels {self.subjects.selector!r}")
        return chosen

    async def _kymas(self, chosen: Collection[str]) -> list[ObjectMeta]:
        listed = await self.kcp.list_metadata(bare(KYMAS), names.KCP_NAMESPACE)
        return [each.metadata for each in listed if each.metadata.name in chosen]

    async def _refuse_strangers(self) -> None:
        """Raise Problem where something holds the Lease that no Deployment of the former version runs."""
        holder = await self._former_holder()
        former = await self._former()
        if holder and not any(holder.startswith(f"{each.name}-") for each in former):
            raise Problem(f"Lease {LEASE} is held by {holder}, which klm may not stop; stop it, then run this again")

    async def _refuse_clusters(self, kymas: Collection[str]) -> None:
        """Raise Problem where clusters can't be given back: they would stay with neither version."""
        wanted = sorted(kymas)
        obstacles = await each_of(wanted, GivingBack(self.kcp, self.policy).obstacle)
        found = {name: why for name, why in zip(wanted, obstacles, strict=True) if why}
        self._name("can't be given back", found)
        if found:
            text = f"{counted(len(found), 'cluster')} of {len(kymas):,} can't be given back, so nothing was changed"
            raise Problem(f"{text}; put that in order, or give back the others with --where-possible")

    async def _label_secrets(self, kymas: Collection[str]) -> None:
        labels = {names.MANAGED_BY: names.LIFECYCLE_MANAGER}
        wanted = [each async for each in self._secrets(kymas) if not labels.items() <= each.labels.items()]
        patch = {"labels": labels, "annotations": {LABELLED_BY: FIELD_MANAGER}}
        question = f"label {counted(len(wanted), 'access Secret')} {names.MANAGED_BY}={names.LIFECYCLE_MANAGER}"
        await self._each(question, wanted, lambda each: self._patch(SECRETS, each, patch))

    async def _unlabel_secrets(self, kymas: Collection[str]) -> None:
        wanted = [each async for each in self._secrets(kymas) if LABELLED_BY in each.annotations]
        patch = {"labels": {names.MANAGED_BY: None}, "annotations": {LABELLED_BY: None}}
        question = f"remove the label {names.MANAGED_BY} from {counted(len(wanted), 'access Secret')}"
        await self._each(question, wanted, lambda each: self._patch(SECRETS, each, patch))

    async def _secrets(self, kymas: Collection[str]) -> AsyncIterator[ObjectMeta]:
        async for each in access_secrets(self.kcp):
            if each.metadata.labels[names.KYMA_NAME] in kymas:
                yield each.metadata

    async def _keep_off(self, chosen: Collection[str], labels: Mapping[str, str]) -> None:
        """Keep the former version from Kymas, then have this one select them."""
        await self._patch_kymas(
            "keep the former version from",
            chosen,
            lambda each: None if each.is_kept_from_former_version else _marking(each),
        )
        wanted = [each for each in await self._manifests(chosen) if not each.is_kept_from_former_version]
        question = f"keep the former version from {counted(len(wanted), 'Manifest')}"
        await self._each(question, wanted, lambda each: self._patch(bare(MANIFESTS), each, _marking(each)))
        await self._patch_kymas(
            "take over",
            chosen,
            lambda each: None if labels.items() <= each.labels.items() else {"labels": dict(labels)},
        )
        now = datetime.now(UTC).isoformat(timespec="seconds")
        template = {"metadata": {"annotations": {"kubectl.kubernetes.io/restartedAt": now}}}
        former = [each for each in await self._former() if each.replicas]
        question = "restart the former version, which keeps connections to clusters for a day"
        await self._each(
            question, former, lambda each: self._patch_deployment(each.name, {"spec": {"template": template}})
        )

    async def _manifests(self, kymas: Collection[str]) -> list[ObjectMeta]:
        listed = await self.kcp.list_metadata(bare(MANIFESTS), names.KCP_NAMESPACE)
        return [each.metadata for each in listed if each.metadata.labels.get(names.KYMA_NAME) in kymas]

    def _given_back(self, metadata: ObjectMeta) -> Patch | None:
        """Return what gives a Kyma back; the label that selects it goes last, so that another run finds it."""
        present = sorted(key for key, _ in (self.subjects.split or {}).items() & metadata.labels.items())
        patch = _unmarked(metadata) or {}
        labels = {**patch.get("labels", {}), **dict.fromkeys(present)}
        return {**patch, "labels": labels} if patch or labels else None

    async def _unmark_manifests(self, chosen: Collection[str]) -> None:
        wanted = [each for each in await self._manifests(chosen) if _unmarked(each) is not None]
        question = f"give {counted(len(wanted), 'Manifest')} back to the former version"
        await self._each(question, wanted, lambda each: self._patch(bare(MANIFESTS), each, _unmarked(each) or {}))

    async def _patch_kymas(
        self, verb: str, chosen: Collection[str], patch_of: Callable[[ObjectMeta], Patch | None]
    ) -> None:
        found = [(each, patch_of(each)) for each in await self._kymas(chosen)]
        wanted = [(metadata, patch) for metadata, patch in found if patch is not None]

        async def write(each: tuple[ObjectMeta, Patch]) -> None:
            await self._patch(RAW_KYMAS, *each)

        await self._each(f"{verb} {counted(len(wanted), 'Kyma')}", wanted, write)

    async def _give_back(self, kymas: Collection[str]) -> int:
        """Give Kymas and their clusters back; return how many could not be. Raises KubeError."""
        giving = GivingBack(self.kcp, self.policy)
        if not kymas:
            return 0
        self._ask(f"give the objects of {counted(len(kymas), 'cluster')} back to the former version")
        changed = await giving.sync_resources(kymas)
        failures: dict[str, str] = {}

        async def one(name: str) -> int:
            try:
                return await self._until_settled(giving, name)
            except CLUSTER_ERRORS as error:
                failures[name] = plain(error)
                return 0

        changed += sum(await each_of(kymas, one))
        self._say(f"done: {counted(changed, 'object')} changed")
        self._name("not given back", failures)
        return len(failures)

    async def _until_settled(self, giving: GivingBack, name: str) -> int:
        """Give a Kyma back until nothing is left to change: a reconcile of this version may have been under way."""
        changed = 0
        for _ in range(MAX_PASSES):
            written = await giving.kyma(await self.kcp.get(KYMAS, name, names.KCP_NAMESPACE))
            changed += written
            if not written:
                return changed
        raise Problem("this version still changes its objects; stop it, or give it no Kyma of this name")

    async def _delete_ca(self) -> None:
        """Delete the CA of this version, so that a later takeover adopts that of the former one again."""
        try:
            secret = await self.kcp.get(SECRETS, CA_SECRET, names.KCP_NAMESPACE)
        except NotFound:
            return
        question = f"delete Secret {names.KCP_NAMESPACE}/{CA_SECRET}, the CA of this version"
        await self._each(
            question, [secret], lambda each: self.kcp.delete(SECRETS, each.metadata.name, names.KCP_NAMESPACE)
        )

    async def _former(self) -> list[Deployment]:
        return former_deployments((await self.kcp.list(DEPLOYMENTS, names.KCP_NAMESPACE)).items)

    async def _ours(self) -> list[Deployment]:
        found = (await self.kcp.list(DEPLOYMENTS, names.KCP_NAMESPACE, label_selector=OUR_DEPLOYMENTS)).items
        former = {each.name for each in former_deployments(found)}
        return [Deployment.of(each) for each in found if each["metadata"]["name"] not in former]

    async def _scale(self, deployments: Collection[Deployment], *, to_zero: bool, what: str) -> None:
        """Scale Deployments to zero, or back to what they were before."""
        wanted = [each for each in deployments if (each.replicas > 0 if to_zero else each.before is not None)]

        def patch(each: Deployment) -> Patch:
            noted, replicas = (str(each.replicas), 0) if to_zero else (None, each.before)
            return {"metadata": {"annotations": {REPLICAS_BEFORE: noted}}, "spec": {"replicas": replicas}}

        named = ", ".join(f"Deployment {each.name}" for each in wanted)
        question = f"scale {what} {'to zero' if to_zero else 'up again'}: {named}"
        await self._each(question, wanted, lambda each: self._patch_deployment(each.name, patch(each)))

    async def _former_holder(self) -> str:
        """Return who holds the Lease of the former version. This version checks it once more before it works."""
        lease = await former_lease(self.kcp)
        return holder_of(lease, datetime.now(UTC)) if lease is not None else ""

    async def _release_lease(self) -> None:
        """Give up the Lease that this version holds, for which the former one would wait until it runs out."""
        lease = await former_lease(self.kcp)
        if lease is None or (lease.get("spec") or {}).get("holderIdentity") != HOLDER:
            return
        version = {"resourceVersion": lease["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "spec": {"holderIdentity": ""}}

        async def release(name: str) -> None:
            await self.kcp.merge_patch(LEASES, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)

        await self._each(f"give up Lease {LEASE}, which this version held", [LEASE], release)

    async def _our_holder(self) -> str:
        now, replicas = datetime.now(UTC), await read_replicas(self.kcp, self.lease_namespace)
        return next((each.name for each in replicas if not each.is_silent(now)), "")

    async def _until(self, holder_of_lease: Callable[[], Awaitable[str]], what: str) -> None:
        """Wait until nobody holds a Lease. Raises Problem where that takes too long."""
        holder = await holder_of_lease()
        if not holder:
            return
        self._say(f"waiting until {what}: it is held by {holder}")
        try:
            async with asyncio.timeout(MAX_WAIT_SECONDS):
                while holder:
                    await asyncio.sleep(POLL_SECONDS)
                    holder = await once_answered(holder_of_lease)
        except TimeoutError:
            raise Problem(f"{holder} still renews its Lease; stop it, then run this again") from None

    async def _patch(self, resource: Resource[Any], of: ObjectMeta, metadata: Patch) -> None:
        """Patch the metadata of this very object, not of a later one of its name."""
        patch = {"metadata": {**metadata, "uid": of.uid}}
        await self.kcp.merge_patch(resource, of.name, patch, of.namespace, field_manager=FIELD_MANAGER)

    async def _patch_deployment(self, name: str, patch: Patch) -> None:
        await self.kcp.merge_patch(DEPLOYMENTS, name, patch, names.KCP_NAMESPACE, field_manager=FIELD_MANAGER)

    async def _each(self, question: str, items: Collection[T], write: Callable[[T], Awaitable[object]]) -> None:
        """Ask, then write for each item, some at a time. Nothing is asked where there is nothing to do."""
        if not items:
            return
        self._ask(question)

        async def one(item: T) -> KubeError | None:
            try:
                with suppress(NotFound):  # deleted meanwhile
                    await write(item)
            except KubeError as error:  # the others are written all the same
                return error
            return None

        failures = [each for each in await each_of(items, one) if each is not None]
        if failures:
            self._say(f"{counted(len(failures), 'write')} of {len(items):,} failed: {question}")
            raise failures[0]
        self._say(f"done: {question}")

    def _ask(self, question: str) -> None:
        if not self.confirm(plain(f"{question}?")):
            raise Problem("not confirmed; nothing more changed. Use --yes, or run it again: it continues from here")

    def _name(self, what: str, reasons: Mapping[str, str]) -> None:
        for name in sorted(reasons)[:SHOWN]:
            self._say(f"{what}: Kyma {name}: {reasons[name]}")

    def _say(self, text: str) -> None:
        self.screen.print(plain(text))
        self.screen.flush()


def _marking(metadata: ObjectMeta) -> Patch:
    """Return what keeps the former version off; a pause by the label alone stays one."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    paused = {names.PAUSED_AT: metadata.annotations.get(names.PAUSED_AT, now)} if metadata.is_paused else {}
    return {
        "labels": {names.SKIP_RECONCILIATION: "true"},
        "annotations": {names.SKIPPED_BY: names.FORMER_VERSION, **paused},
    }


def _unmarked(metadata: ObjectMeta) -> Patch | None:
    """Return what gives an object back to the former version; a pause stays."""
    if names.SKIPPED_BY not in metadata.annotations:
        return None
    is_paused = names.PAUSED_AT in metadata.annotations
    labels: Patch = {} if is_paused else {"labels": {names.SKIP_RECONCILIATION: None}}
    return {**labels, "annotations": {names.SKIPPED_BY: None}}


def _kept_from_both(metadata: ObjectMeta) -> Patch | None:
    """Return what keeps both versions off while a Kyma changes hands."""
    return {"annotations": {names.SKIPPED_BY: EVERY_VERSION}} if metadata.is_kept_from_former_version else None
