"""Generates the Go module `libraries/api/go` from the types: `python -m libraries.api.generate_go`, or `make go`.

Start with `generate.generated_files`. `model` translates the types of Python into those of Go, `types` and
`deep_copies` write them as a Kubebuilder project has them, and `constants` writes the names of labels and
others.
"""
