"""Groups of exceptions: what a reconcile raises that does several things at once, in a TaskGroup."""

from collections.abc import Sequence


def leaves(group: ExceptionGroup[Exception]) -> list[Exception]:
    """Return the exceptions in a group and in its groups."""
    found: list[Exception] = []
    for each in group.exceptions:
        found += leaves(each) if isinstance(each, ExceptionGroup) else [each]
    return found


def decisive(error: Exception, mildest_first: Sequence[type[Exception] | tuple[type[Exception], ...]]) -> Exception:
    """Return the exception that decides what follows: of a group the gravest, the first of several.

    Exceptions of none of the types are graver than all others.
    """
    if not isinstance(error, ExceptionGroup):
        return error
    count = len(mildest_first)

    def gravity(leaf: Exception) -> int:
        return next((number for number, types in enumerate(mildest_first) if isinstance(leaf, types)), count)

    return max(leaves(error), key=gravity)
