"""Writes the generated files of the Go module."""

from libraries.api.generate_go.generate import GO_MODULE, generated_files


def main() -> None:
    """Replace all generated files."""
    for file in GO_MODULE.glob("*/*.go"):
        file.unlink()
    for path, text in generated_files().items():
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
