"""Lines that become one object, in S3 or, while the bucket is away, as a file of a folder."""

import contextlib
import json
import os
import pathlib
import re
import time
import uuid

from ._line import iso, line_of

#: Bytes that are encoded before a pause, and the pause in seconds: who waits for the interpreter gets it.
_WORK_BYTES, _PAUSE = 8 * 1024, 0.0005
_SPOOLED = ".capture-batch"


class Batch:
    def __init__(self, bucket, key, lines=0, body=b""):
        self.bucket, self.key, self.lines, self.body, self.calls = bucket, key, lines, bytearray(body), []


def encode(calls, settings, dropped):
    """Makes a batch of the calls with the place of the first, as many as fit in one."""
    place, at = _place_of(calls[0], settings.prefix), iso(calls[0].start)
    batch = Batch(settings.bucket, f"{place}/{at[14:16]}-{at[17:19]}-{at[20:23]}-{uuid.uuid4()}.jsonl")
    for call in calls:
        if len(batch.body) < settings.batch_bytes and _place_of(call, settings.prefix) == place:
            for part in line_of(call, settings, 0 if batch.lines else dropped):
                batch.body += part
                if len(batch.body) % _WORK_BYTES < len(part):
                    time.sleep(_PAUSE)
            batch.calls.append(call)
            batch.lines += 1
    return batch


def _place_of(call, prefix):
    """SageMaker's layout: endpoint, variant, hour."""
    names = (re.sub(r"[^\w.-]", "_", name) for name in (call.endpoint, call.variant))
    hour = re.sub("[-T]", "/", iso(call.start)[:13])
    return "/".join(part for part in (prefix.strip("/"), *names, hour) if part)


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
        path = self._folder / f"{int(time.time() * 1000):014d}-{uuid.uuid4()}.part"
        # Requests and replies are personal: only the application's own user may read them.
        try:
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
                file.write(json.dumps([batch.bucket, batch.key, batch.lines]).encode() + b"\n" + batch.body)
            path.rename(path.with_suffix(_SPOOLED))
        finally:
            path.unlink(missing_ok=True)

    def batches(self, bucket):
        """Yields what waits for a bucket. A file goes when the next is asked for: until then its object may be missing."""
        for path in self._paths():
            # Another process may have sent it, or it is damaged.
            with contextlib.suppress(OSError, ValueError, TypeError):
                about, body = path.read_bytes().split(b"\n", 1)
                batch = Batch(*json.loads(about), body)
                if batch.bucket == bucket:
                    yield batch
                    path.unlink()

    def _paths(self):
        return sorted(self._folder.glob("*" + _SPOOLED))
