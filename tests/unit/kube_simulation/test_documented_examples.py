"""The examples of docs/kube-runtime.md do what the page says, each run as a program of its own."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path("docs/kube-runtime.md").read_text()
EXAMPLES = re.findall(r"```python\n(.*?)```\n\n```console\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize(("program", "printed"), EXAMPLES, ids=["simulated clusters"])
def test_example_prints_what_the_page_says(program: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", program], check=False, capture_output=True, text=True, timeout=240
    )

    assert (done.returncode, done.stdout) == (0, printed), done.stderr
