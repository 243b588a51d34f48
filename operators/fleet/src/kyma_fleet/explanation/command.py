"""`klm explain` and `klm events`: read the facts, then print them."""

from pathlib import Path

from kube_runtime import Client
from kyma_fleet.documents import print_document
from kyma_fleet.explanation.chain import explain_kyma, explain_module, module_of_object
from kyma_fleet.explanation.reading import Rules, read_facts
from kyma_fleet.explanation.report import KymaEvents, KymaExplanation
from kyma_fleet.problems import Problem
from kyma_fleet.screen import Screen
from kyma_fleet.text import plain
from lifecycle_manager.contract.durations import parse_duration
from lifecycle_manager.rollout.maintenance import PolicyUnreadable, read_policy


def rules_of(max_delay: str, policy: Path | None) -> Rules:
    """Return the options of Lifecycle Manager that an operator gave. Raises Problem."""
    try:
        return Rules(parse_duration(max_delay), read_policy(policy) if policy is not None else None)
    except (PolicyUnreadable, ValueError) as error:
        raise Problem(str(error)) from None


async def explain(kcp: Client, screen: Screen, name: str, subject: str, rules: Rules) -> int:
    """Print why a Kyma, one of its modules or objects is as it is. Returns 1 where it is not ready."""
    facts = await read_facts(kcp, name, rules)
    if not subject:
        chains = explain_kyma(facts)
        found = KymaExplanation(at=facts.now, kyma=name, chains=chains, events=facts.events)
        print_document(found, screen)
        return 1 if chains[0].cause is not None else 0
    about = None
    module = subject
    if "/" in subject:
        owned = module_of_object(facts, subject)
        if owned is None:
            raise Problem(
                f"no module of Kyma {name} has an object {subject}; write it as kind/name or kind/namespace/name"
            )
        module, about = owned
    elif subject not in facts.modules():
        known = ", ".join(map(plain, facts.modules())) or "none"
        raise Problem(f"Kyma {name} has no module {subject}; it has: {known}; an object is written as kind/name")
    chain = explain_module(facts, module)
    found = KymaExplanation(at=facts.now, kyma=name, chains=(chain,), events=facts.events, about=about)
    print_document(found, screen)
    return 1 if chain.cause is not None else 0


async def events(kcp: Client, screen: Screen, name: str) -> int:
    """Print the Events of a Kyma and of all that belongs to it."""
    facts = await read_facts(kcp, name, Rules())
    if not facts.events:
        raise Problem(f"there are no Events of Kyma {name}: API servers keep them for an hour")
    print_document(KymaEvents(at=facts.now, kyma=name, events=facts.events), screen)
    return 0
