"""Importing the manager that the command line names."""

from pathlib import Path

import pytest

from kyma_module_manager import DeclarationError
from kyma_module_manager.loading import load_manager
from kyma_module_manager.samples.cloud_resources import objects


def test_manager_is_found_by_module_and_name() -> None:
    assert load_manager("kyma_module_manager.samples.cloud_resources:objects") is objects


@pytest.mark.parametrize("target", ["", "module_manager", "module_manager:", ":objects"])
def test_target_of_another_form_is_rejected(target: str) -> None:
    with pytest.raises(DeclarationError, match=r"package\.module:object"):
        load_manager(target)


def test_missing_module_is_named() -> None:
    with pytest.raises(DeclarationError, match="cannot import no_such_module"):
        load_manager("no_such_module:objects")


def test_object_that_is_not_a_manager_is_rejected() -> None:
    with pytest.raises(DeclarationError, match="is not a module manager"):
        load_manager("kyma_module_manager.samples:sample_file")


def test_manager_in_the_current_folder_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tmp_path.joinpath("my_little_manager.py").write_text(
        "from kyma_module_manager import module_manager\n\n"
        '@module_manager("little", crd=dict)\n'
        "def objects(config):\n    return []\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [each for each in __import__("sys").path if each])

    assert load_manager("my_little_manager:objects").module == "little"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("def objects(:\n", r"invalid syntax \(NAME\.py, line 1\)"),
        ("import no_such_package\n", "No module named 'no_such_package'"),
        (
            "\n\nfrom pathlib import Path\nTEXT = Path('/nowhere/text').read_text()\n",
            r"FileNotFoundError: .*/nowhere/text' \(.*NAME\.py, line 4\)",
        ),
        ("\nobjects = manager\n", r"NameError: name 'manager' is not defined \(.*NAME\.py, line 2\)"),
    ],
)
def test_fault_in_the_code_of_a_manager_is_named_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    name = f"faulty_{abs(hash(text))}"
    tmp_path.joinpath(f"{name}.py").write_text(text)
    with pytest.raises(DeclarationError, match=f"cannot import {name}: {said.replace('NAME', name)}"):
        load_manager(f"{name}:objects", tmp_path)
