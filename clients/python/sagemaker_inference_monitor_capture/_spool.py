"""Batches in a folder, while the bucket is away: a file each, which keeps the key of the object that it becomes."""

import contextlib
import json
import os
import pathlib
import time
import uuid

from ._batch import Batch

_ENDING = ".capture-batch"


class Spool:
    def __init__(self, folder, most):
        self._folder, self._most = pathlib.Path(folder), most
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def write(self, batch):
        """Raises OSError if the folder is full, or cannot be written."""
        used = len(batch.body)
        for path in self._paths():
            # Another process may send it at any time.
            with contextlib.suppress(FileNotFoundError):
                used += path.stat().st_size
        if used > self._most:
            raise OSError(f"the spool folder is full; got: {used} bytes; expected: at most {self._most}")
        path = self._new_path(".part")
        # Requests and replies are personal: only the application's own user may read them.
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(json.dumps([batch.bucket, batch.key]).encode() + b"\n" + batch.body)
            path.rename(path.with_suffix(_ENDING))
        finally:
            path.unlink(missing_ok=True)

    def batches(self, bucket):
        """Yields what waits for a bucket. A file goes when the next is asked for: until then its object may be missing."""
        for path in self._paths():
            # Another process may have sent it, or it is damaged.
            with contextlib.suppress(OSError, ValueError, TypeError):
                about, body = path.read_bytes().split(b"\n", 1)
                batch = Batch(*json.loads(about), body=body)
                if batch.bucket == bucket:
                    # What is refused, such as a key with a former prefix, is last the next time, and holds nothing back.
                    path = path.rename(self._new_path(_ENDING))
                    yield batch
                    path.unlink()

    def _new_path(self, ending):
        return self._folder / f"{int(time.time() * 1000):014d}-{uuid.uuid4()}{ending}"

    def _paths(self):
        return sorted(self._folder.glob("*" + _ENDING))
