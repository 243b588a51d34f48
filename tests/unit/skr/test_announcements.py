"""An event can arrive before its write is stored; a read counts only once it shows the announced change."""

from dataclasses import replace

from lifecycle_manager.contract.signals import ObjectChanged, ObjectReference, Trace
from lifecycle_manager.skr.announcement import MAX_OBJECTS, TIMEOUT_SECONDS, Announcements, ObservedObject

OBJECT = ObjectReference("cloud-resources.kyma-project.io", "Infrastructure", "kyma-system", "default")
NOW = 100.0


def change(operation: str, *, uid: str = "u", resource_version: str = "7", name: str = OBJECT.name) -> ObjectChanged:
    return ObjectChanged("k", OBJECT._replace(name=name), operation, uid=uid, resource_version=resource_version)


def announcements(operation: str, *, resource_version: str = "7") -> Announcements:
    pending = Announcements()
    pending.announce(change(operation, resource_version=resource_version), now=NOW)
    return pending


def settle(pending: Announcements, seen: ObservedObject, *, now: float = NOW) -> float | None:
    return pending.settle(dict.fromkeys(pending.of(), seen), now=now)


def test_update_is_shown_by_another_resource_version() -> None:
    pending = announcements("UPDATE")
    assert settle(pending, ObservedObject("u", "8")) is None
    assert pending.of() == ()


def test_update_that_is_not_stored_yet_is_read_again_soon() -> None:
    pending = announcements("UPDATE")
    first = settle(pending, ObservedObject("u", "7"))
    second = settle(pending, ObservedObject("u", "7"))
    assert first is not None
    assert second is not None
    assert 0 < first < second <= 0.5


def test_update_of_an_object_that_was_deleted_or_recreated_is_shown() -> None:
    assert settle(announcements("UPDATE"), ObservedObject()) is None
    assert settle(announcements("UPDATE"), ObservedObject("another", "7")) is None


def test_create_is_shown_by_the_object() -> None:
    pending = announcements("CREATE", resource_version="")
    assert settle(pending, ObservedObject()) is not None
    assert settle(pending, ObservedObject("u", "1")) is None


def test_create_is_not_shown_by_the_predecessor_of_the_object() -> None:
    assert settle(announcements("CREATE", resource_version=""), ObservedObject("older", "1")) is not None


def test_delete_is_shown_by_absence_or_by_the_deletion_timestamp() -> None:
    assert settle(announcements("DELETE"), ObservedObject("u", "7")) is not None
    assert settle(announcements("DELETE"), ObservedObject()) is None
    assert settle(announcements("DELETE"), ObservedObject("u", "8", deleting=True)) is None


def test_change_that_was_refused_is_dropped_after_the_timeout_of_webhooks() -> None:
    pending = announcements("UPDATE")
    assert settle(pending, ObservedObject("u", "7")) is not None
    assert settle(pending, ObservedObject("u", "7"), now=NOW + TIMEOUT_SECONDS) is None
    assert pending.of() == ()


def test_timeout_counts_from_the_first_announcement_of_an_event_that_a_retry_repeats() -> None:
    pending, later = announcements("UPDATE"), change("UPDATE", resource_version="8")
    pending.announce(later, now=NOW + 1)
    for seconds in (10.0, 20.0, 30.0):
        for event in (change("UPDATE"), later):
            pending.announce(event, now=NOW + seconds)
    assert settle(pending, ObservedObject("u", "8"), now=NOW + 1 + TIMEOUT_SECONDS) is None
    assert pending.of() == ()


def test_other_event_of_the_same_change_has_its_own_timeout() -> None:
    pending = announcements("UPDATE")
    repeated = replace(change("UPDATE"), trace=Trace("another"))
    pending.announce(repeated, now=NOW + 30)
    assert settle(pending, ObservedObject("u", "7"), now=NOW + TIMEOUT_SECONDS) is not None
    assert settle(pending, ObservedObject("u", "7"), now=NOW + 30 + TIMEOUT_SECONDS) is None


def test_event_that_was_settled_can_be_announced_again() -> None:
    pending = announcements("UPDATE")
    settle(pending, ObservedObject("u", "8"))
    pending.announce(change("UPDATE"), now=NOW + TIMEOUT_SECONDS)
    assert settle(pending, ObservedObject("u", "7"), now=NOW + TIMEOUT_SECONDS) is not None


def test_announcement_that_arrives_during_the_read_is_kept() -> None:
    pending = announcements("UPDATE")
    read = pending.of()
    pending.announce(change("UPDATE", resource_version="8"), now=NOW)
    assert pending.settle(dict.fromkeys(read, ObservedObject("u", "8")), now=NOW) is not None
    assert [announcement.resource_version for announcement in pending.of()] == ["8"]


def test_older_announcement_that_arrives_late_does_not_replace_the_newer_one() -> None:
    pending = announcements("UPDATE", resource_version="10")
    pending.announce(change("UPDATE", resource_version="9"), now=NOW)
    assert [announcement.resource_version for announcement in pending.of()] == ["10"]


def test_number_of_announcements_is_bounded() -> None:
    pending = Announcements()
    remembered = [pending.announce(change("UPDATE", name=str(number)), now=NOW) for number in range(500)]
    assert sum(remembered) == MAX_OBJECTS
    assert len(pending.of()) == MAX_OBJECTS


def test_newest_announcements_are_kept() -> None:
    """The write of an older one is stored or refused by the time that so many have arrived."""
    pending = Announcements()
    for number in range(MAX_OBJECTS + 1):
        pending.announce(change("UPDATE", name=str(number)), now=NOW)
    assert [each.object.name for each in pending.of()] == [str(number) for number in range(1, MAX_OBJECTS + 1)]
