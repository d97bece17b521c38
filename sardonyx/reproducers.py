"""Files that show a bug of ours: each error has its own, whoever else is on the machine."""

from __future__ import annotations


def written(step: str, text: str) -> str | None:
    """The path of a new file with the text, named after what failed; None where none can be written."""
    from tempfile import NamedTemporaryFile

    try:
        with NamedTemporaryFile("w", prefix=f"sardonyx-reproducer-{step}-", suffix=".mlir", delete=False) as file:
            file.write(text)
    except OSError:  # the error that is being told matters more
        return None
    return file.name


def told(path: str | None) -> str:
    """The line of an error that says where the file is."""
    return f"\n   = file: {path}" if path is not None else ""
