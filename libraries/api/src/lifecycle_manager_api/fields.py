"""Rules of fields that several kinds have.

Decoding does not check them: an object that was stored before a rule became stricter must remain readable.
"""

from typing import Annotated

from kube_crds import schema

EMBEDDED_OBJECT = schema(**{"x-kubernetes-embedded-resource": True})

ANY_VERSION = r"((0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[a-zA-Z-][0-9a-zA-Z-]*)?)?"

Channel = Annotated[str, schema(pattern="^[a-z]+$", minLength=3, maxLength=32)]
ModuleName = Annotated[str, schema(pattern="^([a-z]{3,}(-[a-z]{3,})*)?$", maxLength=64)]
ModuleVersion = Annotated[str, schema(pattern=f"^{ANY_VERSION}$", maxLength=32)]
