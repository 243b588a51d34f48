"""What all tests have in common."""

from hypothesis import settings

# How long an example takes says more about the machine than about the code.
settings.register_profile("on any machine", deadline=None)
settings.load_profile("on any machine")
