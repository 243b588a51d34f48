"""`python -m kyma_local`: the commands of `klm local`."""

from kyma_local.cli import app

app()
