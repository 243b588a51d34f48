"""What the playground prints for other terminals."""

from pathlib import Path

from kyma_demo.playground.running import exports


def test_other_terminals_get_the_programs_of_a_venv_and_the_kubeconfig() -> None:
    kubeconfig = Path("/here/kcp/kubeconfig")
    assert (
        exports(kubeconfig, "/here/.venv", "/usr")
        == "export PATH=/here/.venv/bin:$PATH KUBECONFIG=/here/kcp/kubeconfig"
    )
    assert exports(kubeconfig, "/usr", "/usr") == "export KUBECONFIG=/here/kcp/kubeconfig"
