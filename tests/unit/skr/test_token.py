"""When a token of an access Secret is renewed, and what is accepted as a new one. A cluster may return anything."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kube_runtime import dump_yaml, load_yaml
from lifecycle_manager.skr.token import MAX_LENGTH, TokenUnusable, issued_token, token_in, token_of, with_token
from tests.builders import NOW
from tests.unit.skr.tokens import kubeconfig, token

HOUR = timedelta(hours=1)


def answer(text: object, expires: datetime = NOW + HOUR) -> dict[str, Any]:
    return {"status": {"token": text, "expirationTimestamp": expires.isoformat()}}


def test_token_is_due_after_two_thirds_of_its_lifetime_and_requested_for_as_long() -> None:
    read = token_in(kubeconfig(token(NOW, lasts=timedelta(hours=3))))
    assert read.due == NOW + timedelta(hours=2)
    assert read.request["spec"] == {"expirationSeconds": 3 * 3600}
    assert (read.namespace, read.account) == ("kube-system", "klm")


def test_nothing_but_the_token_of_the_current_user_is_replaced() -> None:
    before = load_yaml(kubeconfig("old"))
    after = load_yaml(with_token(kubeconfig("old"), token_of(token(NOW))))
    assert after["users"][0]["user"] == {"token": token(NOW)}
    before["users"][0] = after["users"][0]
    assert after == before


def test_token_is_read_beside_entries_that_have_no_name() -> None:
    document = load_yaml(kubeconfig(token(NOW)))
    document["users"] = [None, {}, *document["users"]]
    assert token_in(dump_yaml(document)).account == "klm"


@pytest.mark.parametrize(
    "text",
    [
        None,
        "",
        "static",
        "a.b.c",
        token(NOW, lasts=-HOUR),
        token(NOW, subject="kube-system:../../secrets"),
        f"{token(NOW)}\n  exec: {{command: sh}}",
        token(NOW) + "x" * MAX_LENGTH,
    ],
)
def test_what_is_no_token_of_a_service_account_is_refused(text: object) -> None:
    with pytest.raises(TokenUnusable):
        issued_token(answer(text), token_of(token(NOW)), NOW)


def test_token_of_another_account_or_of_a_short_life_is_refused() -> None:
    former = token_of(token(NOW))
    nine = timedelta(minutes=9)
    for refused in (answer(token(NOW, subject="kube-system:other")), answer(token(NOW, lasts=nine), NOW + nine)):
        with pytest.raises(TokenUnusable):
            issued_token(refused, former, NOW)
    assert issued_token(answer(token(NOW)), former, NOW) == former


@pytest.mark.parametrize(
    ("issued", "expires", "stated", "why"),
    [
        (NOW - 10 * HOUR, NOW + HOUR / 2, None, "not issued now"),
        (NOW + HOUR / 2, NOW + HOUR, None, "not issued now"),
        (NOW, datetime(2200, 1, 1, tzinfo=UTC), None, "longer than was requested"),
        (NOW, NOW + 2 * HOUR, None, "longer than was requested"),
        (NOW, NOW + HOUR, NOW + HOUR / 2, "another time"),
        (NOW - HOUR, NOW, None, "not issued now"),
    ],
)
def test_token_is_believed_only_for_the_time_that_was_requested(
    issued: datetime, expires: datetime, stated: datetime | None, why: str
) -> None:
    text = token(issued, lasts=expires - issued)
    with pytest.raises(TokenUnusable, match=why):
        issued_token(answer(text, stated or expires), token_of(token(NOW)), NOW)


@pytest.mark.parametrize("stated", [None, "", 5, "soon", "0001-01-01T00:00:00+23:59"])
def test_answer_has_to_say_when_a_token_expires(stated: object) -> None:
    with pytest.raises(TokenUnusable):
        issued_token({"status": {"token": token(NOW), "expirationTimestamp": stated}}, token_of(token(NOW)), NOW)


def test_token_of_centuries_is_renewed_within_a_year() -> None:
    assert token_of(token(NOW, lasts=timedelta(days=60_000))).due < NOW + timedelta(days=365)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(),
        lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    )
)
def test_any_answer_is_a_token_or_a_refusal(document: Any) -> None:
    with pytest.raises(TokenUnusable):
        issued_token({"status": document}, token_of(token(NOW)), NOW)


@pytest.mark.parametrize("text", ["", "[]", "users: 3", kubeconfig("x").replace("klm", "nobody", 1), "\x00"])
def test_kubeconfig_without_a_token_is_refused(text: str) -> None:
    with pytest.raises(TokenUnusable):
        token_in(text)
