"""Makes the texts of Module CRs: small ones on the event loop, large ones in a thread.

The thread takes up to a tenth of a second of CPU for a text, and the event loop waits for it several times meanwhile.
So there is one thread, for which one text of each cluster waits at a time.
"""

import asyncio
import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any
from weakref import WeakValueDictionary

import msgspec

from kube_runtime import UNDECODABLE, JsonLimits, ResponseTooLarge, TextTooLong, dump_yaml
from kube_runtime.client.json_limits import check_json
from lifecycle_manager.contract.owned_fields import owned_status_fields, without_owned
from lifecycle_manager.contract.signals import ObjectReference
from lifecycle_manager.module_config.reading import ModuleCr, Reading
from lifecycle_manager.module_config.status import too_large, undecodable
from lifecycle_manager_api.kinds import MAX_TEXT_BYTES

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
OF_THE_SERVER = frozenset({"managedFields", "resourceVersion"})
MODULE_CR = JsonLimits(max_bytes=4 * 1024 * 1024, max_nodes=50_000)
SMALL_BYTES = 4 * 1024
"""What becomes a text on the event loop, in 5 ms whatever it is."""
MAX_LARGE_SECONDS = 0.5
"""After so long, further large ones are left for the next reconcile: a small change waits no longer."""
_THREAD = ThreadPoolExecutor(max_workers=1, thread_name_prefix="texts")


@dataclass(frozen=True, eq=False)
class TextMaker:
    """Makes the texts of readings, one large one at a time for each cluster."""

    _large: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary, init=False)

    async def with_texts(self, cluster: str, reading: Reading, accepted: Collection[ObjectReference]) -> Reading:
        """Return the reading with the text of each accepted Module CR, the smallest first.

        Large ones may be left without a text: they are to be read again.
        """
        found, ends = dict(reading.found), 0.0
        unread = [each for each in reading.present if each.is_unread and each.source in accepted]
        for module_cr in sorted(unread, key=lambda each: len(each.raw)):
            if len(module_cr.raw) <= SMALL_BYTES:
                await asyncio.sleep(0)
                found[module_cr.source] = with_text(module_cr)
            elif not ends or time.monotonic() < ends:
                ends = ends or time.monotonic() + MAX_LARGE_SECONDS
                async with self._large.setdefault(cluster, asyncio.Lock()):
                    made = asyncio.get_running_loop().run_in_executor(_THREAD, with_text, module_cr)
                    found[module_cr.source] = await made
        return replace(reading, found=found)


def with_text(module_cr: ModuleCr) -> ModuleCr:
    """Return a Module CR with its text, or with the reason why it has none."""
    source, reference = module_cr.source, module_cr.reference
    try:
        check_json(module_cr.raw, MODULE_CR)
        document = msgspec.json.decode(module_cr.raw, type=dict[str, Any])
        # A list of the API server does not name the kind of its objects.
        text = text_of(document | {"apiVersion": reference.api_version, "kind": reference.kind})
    except ResponseTooLarge as error:
        return replace(module_cr, raw=b"", problem=too_large(source, str(error)))
    except TextTooLong:
        return replace(module_cr, raw=b"", problem=too_large(source, f"its text has more than {MAX_TEXT_BYTES} bytes"))
    except UNDECODABLE as error:
        return replace(module_cr, raw=b"", problem=undecodable(source, str(error)))
    return replace(module_cr, raw=b"", text=text)


def text_of(module_cr: Mapping[str, Any]) -> str:
    """Return a Module CR as YAML in a stable order, without what changes although its user changed nothing.

    That is the managed fields, the resource version, the annotation of kubectl apply, and the fields of the status that
    the Lifecycle Manager wrote. Raises TextTooLong.
    """
    metadata = {key: value for key, value in module_cr["metadata"].items() if key not in OF_THE_SERVER}
    annotations = metadata.pop("annotations", None)
    if isinstance(annotations, dict):
        annotations = {key: value for key, value in annotations.items() if key != LAST_APPLIED}
        if annotations:
            metadata["annotations"] = annotations
    document = {**module_cr, "metadata": metadata}
    owned = owned_status_fields(module_cr["metadata"].get("managedFields"))
    if owned and (status := without_owned(document.pop("status", None), owned)) is not None:
        document["status"] = status
    return dump_yaml(document, max_bytes=MAX_TEXT_BYTES)
