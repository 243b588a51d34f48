"""`klm explain` and `klm events`: the cause, then the links, the last Events, and what to do next."""

from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

from kube_runtime import Client
from kube_runtime.ages import age
from kyma_fleet.documents import Document, print_document, reference
from kyma_fleet.explanation.chain import (
    CONFIG,
    MANIFEST,
    SYNC_RESOURCE,
    Chain,
    Link,
    explain_kyma,
    explain_module,
    module_of_object,
)
from kyma_fleet.explanation.facts import Occurrence
from kyma_fleet.explanation.reading import Rules, read_facts
from kyma_fleet.problems import Problem, meant
from kyma_fleet.screen import LiveTable, Screen, say
from kyma_fleet.text import cut, plain
from lifecycle_manager.contract.durations import parse_duration
from lifecycle_manager.contract.fleet import GOOD
from lifecycle_manager.rollout.maintenance import PolicyUnreadable, read_policy
from lifecycle_manager_api import Kyma

EVENTS_SHOWN = 5
MAX_TITLE = 28


class KymaExplanation(Document, frozen=True):
    """Why a Kyma, or a module of it, is as it is; `about` is a link on the object that was asked for."""

    at: datetime
    kyma: str
    chains: tuple[Chain, ...]
    events: tuple[Occurrence, ...]
    about: Link | None = None

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        for number, chain in enumerate(self.chains):
            if number:
                screen.print()
            _print_chain(chain, screen, self.about if number == 0 else None)
        if self.events:
            screen.print()
            screen.print(screen.painted("last Events", bold=True))
            _print_events(self.events[-EVENTS_SHOWN:], screen, self.at)
        commands = dict.fromkeys(each.next_command for each in self.chains if each.next_command)
        if commands:
            screen.print()
        for command in commands:
            screen.print(f"next:  {screen.painted(plain(command), bold=True)}")

    def names(self) -> Iterator[str]:
        """Return the Kyma and its parts."""
        yield reference(Kyma.KIND, self.kyma)
        for link in (link for chain in self.chains for link in chain.links):
            if link.part and link.title in {MANIFEST, CONFIG, SYNC_RESOURCE}:
                yield reference(link.title, link.part)


class KymaEvents(Document, frozen=True):
    """The Events of a Kyma and of its parts, the newest last."""

    at: datetime
    kyma: str
    events: tuple[Occurrence, ...]

    def print_table(self, screen: Screen) -> None:
        """Print it for people."""
        _print_events(self.events, screen, self.at)

    def names(self) -> Iterator[str]:
        """Return the objects that the Events are about."""
        return (reference(*each.about.split(" ", 1)) for each in self.events)


def _print_events(events: Iterable[Occurrence], screen: Screen, now: datetime) -> None:
    """Print Events, the newest last: each in a line for programs, in as many as it takes on a terminal."""
    if screen.width is None:
        table = LiveTable(screen, ("LAST", "COUNT", "TYPE", "REASON", "OBJECT", "MESSAGE"))
        table.print(
            (age(each.at, now), str(each.count), each.kind, each.reason, each.about, each.note) for each in events
        )
        return
    for each in events:
        times = f", {each.count} times" if each.count > 1 else ""
        kind = screen.painted(plain(each.kind), **({"fg": "yellow"} if each.kind == "Warning" else {}))
        when = f"{age(each.at, now)} ago".rjust(8)
        head = plain(f"{each.reason}, {each.about}{times}")
        screen.print(f"{when}  {kind} {cut(head, screen.width - 18)}")
        screen.print_wrapped(" " * 10, each.note, 10)


def _print_chain(chain: Chain, screen: Screen, about: Link | None) -> None:
    subject, name, cause = plain(chain.subject), chain.state.value or "new", chain.cause
    headline = f"{screen.painted(subject, bold=True)} is {screen.state(name)}"
    if cause is not None:
        joint = ", but " if chain.state in GOOD else ": "
        used = len(f"{subject} is {name}{joint}")
        headline += joint + cut(plain(f"{cause.title}: {cause.text}"), max((screen.width or 10_000) - used, 20))
    screen.print(headline)
    links = [*([about] if about is not None else []), *chain.links]
    width = min(max((len(plain(each.title)) for each in links), default=0), MAX_TITLE)
    for link in links:
        _print_link(link, screen, width)


def _print_link(link: Link, screen: Screen, width: int) -> None:
    """Print a link; what is in order in one line, what is not in as many as it takes."""
    title, indent = plain(link.title), width + 5
    head = f"  {screen.sign(link.mark)} {title.ljust(width)} "
    if len(title) > width:
        screen.print(head.rstrip())
        head = " " * indent
    screen.print_wrapped(head, link.text, indent)
    for detail in link.details:
        screen.print_wrapped(f"{' ' * indent}- ", detail, indent + 2)


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
        known, close = ", ".join(facts.modules()) or "none", meant(subject, facts.modules())
        raise Problem(f"Kyma {name} has no module {subject}; it has: {known}; an object is written as kind/name{close}")
    chain = explain_module(facts, module)
    found = KymaExplanation(at=facts.now, kyma=name, chains=(chain,), events=facts.events, about=about)
    print_document(found, screen)
    return 1 if chain.cause is not None else 0


async def events(kcp: Client, screen: Screen, name: str) -> int:
    """Print the Events of a Kyma and of all that belongs to it."""
    facts = await read_facts(kcp, name, Rules())
    if not facts.events:
        say(f"there are no Events of Kyma {name}: API servers keep them for an hour")
    print_document(KymaEvents(at=facts.now, kyma=name, events=facts.events), screen)
    return 0
