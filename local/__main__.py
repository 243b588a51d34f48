"""`python -m local`: the commands of `klm local`."""

from local.cli import app

app()
