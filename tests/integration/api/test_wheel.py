"""The wheel, installed into an empty environment and used as in its README."""

import os
import re
import subprocess
import sys
from pathlib import Path

UV = Path(sys.executable).with_name("uv")
README = Path("api/README.md")


def test_wheel_depends_on_msgspec_only_and_the_readme_works(tmp_path: Path) -> None:
    python = tmp_path / "venv" / "bin" / "python"
    _run(UV, "build", "--quiet", "--wheel", "--package", "kyma-lifecycle-manager-api", "--out-dir", tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    _run(UV, "venv", "--quiet", tmp_path / "venv")

    _run(UV, "pip", "install", "--quiet", "--python", python, wheel)

    installed = {line.partition("==")[0] for line in _run(UV, "pip", "freeze", "--python", python).splitlines()}
    assert installed == {"kyma-lifecycle-manager-api @ " + wheel.as_uri(), "msgspec"}
    example, printed = re.findall(r"```(?:python|console)\n(.*?)```", README.read_text(), re.DOTALL)[:2]
    assert _run(python, "-I", "-c", example) == printed


def test_installed_package_generates_every_crd(tmp_path: Path) -> None:
    names = _run(
        sys.executable,
        "-I",
        "-c",
        "from lifecycle_manager_api.crds import all_crds; print(*(crd['metadata']['name'] for crd in all_crds()))",
    )

    assert len(names.split()) == 7


def _run(*command: object) -> str:
    environment = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    return done.stdout
