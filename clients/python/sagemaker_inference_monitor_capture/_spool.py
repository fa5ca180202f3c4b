"""A folder for batches while the bucket is away: the path of a file is the key of its object."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Iterator


def spool(folder: pathlib.Path, key: str, lines: bytes, most: float) -> None:
    """Raises OSError if the folder is full, or cannot be written."""
    used = len(lines) + sum(size for _, size in spooled(folder))
    if used > most:
        raise OSError(f"the spool folder {folder} is full; got: {used} bytes; expected: at most {most}")
    path = folder / key
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Requests and replies are personal: only the application's own user may read them.
    with open(os.open(f"{path}.part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(lines)
    os.replace(f"{path}.part", path)


def spooled(folder: pathlib.Path) -> Iterator[tuple[str, int]]:
    """Yields the keys of batches, and their bytes."""
    for path in sorted(folder.rglob("*.jsonl"), key=str):
        # Another process may have sent it.
        with contextlib.suppress(FileNotFoundError):
            yield path.relative_to(folder).as_posix(), path.stat().st_size
