"""Whose a key is: the same answer for everybody, and few keys move when members come and go."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as some

from kube_runtime.leases.rendezvous import rendezvous

MEMBERS = some.sets(some.text("abcdef0123456789-", min_size=1, max_size=12), min_size=1, max_size=8)
KEYS = some.lists(some.text(min_size=1, max_size=20), min_size=1, max_size=50, unique=True)


@given(KEYS, MEMBERS)
def test_order_of_members_does_not_matter(keys: list[str], members: set[str]) -> None:
    ordered = tuple(sorted(members))

    assert [rendezvous(key, ordered) for key in keys] == [rendezvous(key, ordered[::-1]) for key in keys]


@given(KEYS, MEMBERS, some.data())
def test_only_the_keys_of_a_member_that_leaves_move(keys: list[str], members: set[str], data: some.DataObject) -> None:
    leaving = data.draw(some.sampled_from(sorted(members)))
    left = tuple(members - {leaving})

    for key in keys:
        before = rendezvous(key, tuple(members))
        assert rendezvous(key, left) == (before if before != leaving else rendezvous(key, left))
        assert before == leaving or rendezvous(key, left) == before


def test_keys_are_spread_evenly_and_a_new_member_takes_its_share() -> None:
    keys = [f"kyma-{number}" for number in range(10_000)]
    three, four = ("a", "b", "c"), ("a", "b", "c", "d")

    counts = Counter(rendezvous(key, three) for key in keys)
    moved = [key for key in keys if rendezvous(key, three) != rendezvous(key, four)]

    assert all(3_000 < count < 3_700 for count in counts.values())
    assert 2_200 < len(moved) < 2_800
    assert {rendezvous(key, four) for key in moved} == {"d"}


def test_nobody_has_no_keys() -> None:
    assert rendezvous("key", ()) is None
