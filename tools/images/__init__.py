"""Builds the images without a container engine: `python -m tools.images.build`, or `make images`.

An OCI image is some archives (layers) and three JSON documents. `build` installs the programs and puts the images
together, `bases` provides what is below the programs, `layers` and `archive` write the files, `packages` lists what is
inside; `within` runs what installs the programs on a base, and `debian` the tests on the same Python; `engines` loads
the images where a container engine runs. Two builds of one commit on one base have the same
digest.
"""
