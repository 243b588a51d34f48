"""An event can overtake its write; a read counts only once it shows what was announced."""

from lifecycle_manager.skr import Announcements, ObjectReference
from lifecycle_manager.skr.announcement import MOST_OBJECTS, PATIENCE_SECONDS, Seen

OBJECT = ObjectReference("cloud-resources.kyma-project.io", "Infrastructure", "kyma-system", "default")


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def announcements(operation: str, *, uid: str = "u", resource_version: str = "7") -> Announcements[str]:
    pending = Announcements[str](Clock())
    pending.announce("key", OBJECT, operation=operation, uid=uid, resource_version=resource_version)
    return pending


def settle(pending: Announcements[str], seen: Seen) -> float | None:
    return pending.settle("key", dict.fromkeys(pending.of("key"), seen))


def test_update_is_shown_by_another_resource_version() -> None:
    pending = announcements("UPDATE")
    assert settle(pending, Seen("u", "8")) is None
    assert pending.of("key") == ()


def test_update_that_is_not_stored_yet_is_read_again_soon() -> None:
    pending = announcements("UPDATE")
    first = settle(pending, Seen("u", "7"))
    second = settle(pending, Seen("u", "7"))
    assert first is not None
    assert second is not None
    assert 0 < first < second <= 0.5


def test_update_of_an_object_that_is_gone_or_new_is_shown() -> None:
    assert settle(announcements("UPDATE"), Seen()) is None
    assert settle(announcements("UPDATE"), Seen("another", "7")) is None


def test_create_is_shown_by_the_object() -> None:
    pending = announcements("CREATE", resource_version="")
    assert settle(pending, Seen()) is not None
    assert settle(pending, Seen("u", "1")) is None


def test_create_is_not_shown_by_the_predecessor_of_the_object() -> None:
    assert settle(announcements("CREATE", resource_version=""), Seen("older", "1")) is not None


def test_delete_is_shown_by_absence_or_by_the_deletion_timestamp() -> None:
    assert settle(announcements("DELETE"), Seen("u", "7")) is not None
    assert settle(announcements("DELETE"), Seen()) is None
    assert settle(announcements("DELETE"), Seen("u", "8", deleting=True)) is None


def test_change_that_was_refused_is_given_up_after_the_time_webhooks_have() -> None:
    clock = Clock()
    pending = Announcements[str](clock)
    pending.announce("key", OBJECT, operation="UPDATE", uid="u", resource_version="7")
    assert settle(pending, Seen("u", "7")) is not None
    clock.now += PATIENCE_SECONDS
    assert settle(pending, Seen("u", "7")) is None
    assert pending.of("key") == ()


def test_announcement_that_arrives_during_the_read_is_kept() -> None:
    pending = announcements("UPDATE")
    read = pending.of("key")
    pending.announce("key", OBJECT, operation="UPDATE", uid="u", resource_version="8")
    assert pending.settle("key", dict.fromkeys(read, Seen("u", "8"))) is not None
    assert [announcement.resource_version for announcement in pending.of("key")] == ["8"]


def test_older_announcement_that_comes_late_does_not_replace_the_newer_one() -> None:
    pending = announcements("UPDATE", resource_version="10")
    pending.announce("key", OBJECT, operation="UPDATE", uid="u", resource_version="9")
    assert [announcement.resource_version for announcement in pending.of("key")] == ["10"]


def test_flood_of_announcements_is_bounded() -> None:
    pending = Announcements[str](Clock())
    remembered = [
        pending.announce("key", OBJECT._replace(name=str(number)), operation="UPDATE") for number in range(500)
    ]
    assert sum(remembered) == MOST_OBJECTS
    assert len(pending.of("key")) == MOST_OBJECTS


def test_one_key_knows_nothing_of_another() -> None:
    pending = announcements("UPDATE")
    assert pending.of("other") == ()
    pending.forget("key")
    assert pending.of("key") == ()
