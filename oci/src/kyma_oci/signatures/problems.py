"""Why a descriptor is not believed."""


class Unverified(Exception):
    """Nothing proves who vouches for a descriptor or for its content; the message says what is missing or wrong."""
