"""Why a module or a Kyma is not ready: causes in the words of who found them, the worst first.

Users read them in their cluster, so a text for the SKR says nothing that belongs to the control plane: the message of a
cause that may name its objects, its hosts or other users' clusters is replaced there; its reason stays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from lifecycle_manager_api import State
from lifecycle_manager_api.conditions import shortened

MAX_CAUSES = 3
MAX_NAME_LENGTH = 128
MAX_MESSAGE_LENGTH = 512
MAX_SUMMARY_LENGTH = 1024
"""Every text of a status is stored twice, and users may write anything."""
MAX_REASON_LENGTH = 64
MAX_SUBJECT_LENGTH = 96
HIDDEN = "the operators of the control plane can see the details"

_WORST_FIRST = (State.ERROR, State.WARNING, State.PROCESSING, State.EMPTY, State.DELETING)


@dataclass(frozen=True, slots=True)
class Cause:
    """Why something is not ready. `subject` is what it is about, such as `Infrastructure default`.

    `is_internal` where the message may say something that belongs to the control plane.
    """

    state: State
    reason: str
    message: str
    subject: str = ""
    is_internal: bool = False

    def for_users(self) -> "Cause":
        """Return the cause as the users of an SKR may read it."""
        return replace(self, message=HIDDEN) if self.is_internal else self

    def text(self, max_length: int) -> str:
        """Return the cause for people; its reason is never cut off."""
        reason = shortened(self.reason, MAX_REASON_LENGTH)
        ending = f" ({reason})" if reason else ""
        message = " ".join(self.message.split())
        subject = shortened(self.subject, MAX_SUBJECT_LENGTH)
        text = ": ".join(filter(None, (subject, message or f"is {self.state.value or 'new'}")))
        return shortened(text, max_length - len(ending)) + ending


def worst_first(causes: Iterable[Cause]) -> list[Cause]:
    """Return causes by their states; those of one state stay in their order."""
    return sorted(causes, key=lambda cause: _WORST_FIRST.index(cause.state))


def format_causes(causes: Sequence[Cause], max_length: int) -> str:
    """Return the worst causes as one text, with the number of the others."""
    shown = worst_first(causes)[:MAX_CAUSES]
    left = len(causes) - len(shown)
    more = f" and {left} more" if left else ""
    room = max_length - len(more) - 2 * (len(shown) - 1)
    texts: list[str] = []
    for number, cause in enumerate(shown):
        text = cause.text(room // (len(shown) - number))
        texts.append(text)
        room -= len(text)
    return "; ".join(texts) + more
