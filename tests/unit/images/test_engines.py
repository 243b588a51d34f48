"""The commands that container engines get; the engines are scripts that record them."""

from pathlib import Path

import pytest

from tools.images.engines import Engine, EngineFailed

RECORDING = """#!/bin/sh
echo "$@" >> {log}
case $1 in
create | from) echo made ;;
mount) echo {mounted} ;;
export) : > "${{2#--output=}}" ;;
esac
"""


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("docker", ["create python:3.11", "export --output={root} made", "rm made", "load --input image.tar"]),
        ("podman", ["create python:3.11", "export --output={root} made", "rm made", "load --input image.tar"]),
        ("buildah", ["from python:3.11", "mount made", "rm made", "pull --quiet oci-archive:image.tar"]),
    ],
)
def test_engine_exports_a_base_and_loads_an_image(tmp_path: Path, name: str, expected: list[str]) -> None:
    root, log = tmp_path / "root.tar", tmp_path / "log"
    (tmp_path / "mounted").mkdir()
    engine = _engine(tmp_path / name, RECORDING.format(log=log, mounted=tmp_path / "mounted"))
    engine.export_root("python:3.11", root)
    engine.load(Path("image.tar"))
    assert root.is_file()
    assert log.read_text().splitlines() == [each.format(root=root) for each in expected]


def test_error_of_an_engine_names_the_command_and_its_message(tmp_path: Path) -> None:
    engine = _engine(tmp_path / "podman", "#!/bin/sh\necho no space left >&2\nexit 125\n")
    with pytest.raises(EngineFailed, match=r"podman load --input image\.tar: no space left"):
        engine.load(Path("image.tar"))


def _engine(program: Path, script: str) -> Engine:
    program.write_text(script)
    program.chmod(0o755)
    return Engine(program=str(program))
