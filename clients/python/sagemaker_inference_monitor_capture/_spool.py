"""A folder for batches while the bucket is away: below the bucket's name, the path of a file is the key of its object."""

import contextlib
import os
import pathlib


class Spool:
    def __init__(self, settings):
        self._folder, self._most = pathlib.Path(settings.spool_folder, settings.bucket), settings.spool_bytes
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, key, lines):
        """Raises OSError if the folder is full, or cannot be written."""
        used = len(lines) + sum(size for _, size, _ in self._files())
        if used > self._most:
            raise OSError(f"the spool folder is full; got: {used} bytes; expected: at most {self._most}")
        path = self._folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        # Requests and replies are personal: only the application's own user may read them.
        with open(os.open(f"{path}.part", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(lines)
        os.replace(f"{path}.part", path)

    def batches(self):
        """Yields keys and lines, the oldest first. A file goes when the next is asked for: until then its object may be missing."""
        for _, _, path in sorted(self._files()):
            # Another process may have sent it.
            with contextlib.suppress(FileNotFoundError):
                # What is refused, such as a key with a former prefix, is last the next time, and holds nothing back.
                os.utime(path)
                yield path.relative_to(self._folder).as_posix(), path.read_bytes()
                path.unlink()

    def _files(self):
        for path in self._folder.rglob("*.jsonl"):
            with contextlib.suppress(FileNotFoundError):
                about = path.stat()
                yield about.st_mtime, about.st_size, path
