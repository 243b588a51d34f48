"""The endpoint remembers nonces within bounds."""

from lifecycle_manager.events.guards import Nonces, digest_of


def test_nonce_is_known_while_its_signature_is_valid_and_dropped_after() -> None:
    nonces = Nonces()
    nonces.remember("key", "nonce", until=100.0, now=0.0)
    assert nonces.knows("key", "nonce")
    assert not nonces.knows("other", "nonce")
    nonces.remember("key", "second", until=300.0, now=101.0)
    assert not nonces.knows("key", "nonce")
    assert len(nonces) == 1


def test_flood_of_nonces_is_bounded_and_drops_the_oldest() -> None:
    nonces = Nonces(limit=100)
    for number in range(1000):
        nonces.remember("key", f"nonce {number}", until=1e9, now=0.0)
    assert len(nonces) == 100
    assert nonces.knows("key", "nonce 999")
    assert not nonces.knows("key", "nonce 0")


def test_long_nonce_takes_no_more_memory_than_a_short_one() -> None:
    assert {len(digest_of("key", nonce)) for nonce in ("n" * 128, "short")} == {16}
