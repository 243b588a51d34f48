"""What the package offers is what it says it offers."""

import subprocess
import sys

import kube_runtime
from kube_runtime import exceptions


def test_everything_offered_is_there_and_in_order() -> None:
    assert (
        sorted(kube_runtime.__all__, key=lambda name: (not name.isupper(), name[0].islower(), name))
        == kube_runtime.__all__
    )
    assert all(hasattr(kube_runtime, name) for name in kube_runtime.__all__)


def test_every_exception_is_offered_and_drawn_in_the_tree() -> None:
    assert set(exceptions.__all__) <= set(kube_runtime.__all__)
    tree = exceptions.__doc__ or ""
    assert all(name in tree for name in exceptions.__all__ if name != "StatusCause")


def test_slow_library_is_not_imported_before_it_is_needed() -> None:
    code = "import sys, kube_runtime; print('kubernetes_asyncio' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
