"""The options of the captures, and their numbers."""

from __future__ import annotations

import os
import posixpath
from dataclasses import dataclass
from typing import Any, TypedDict

from ._s3 import is_async, is_client


class Stats(TypedDict):
    """What became of the captures since the process started.

    open: calls that run. waiting: ended, not written. written: in S3. spooled: went to the folder. dropped: lost.
    without_content: contents that were left out of captures: too large, not readable twice, never read, or over the memory's bound.
    last_error: the last failure of the capture, which is not one of the application's requests.
    """

    open: int
    waiting: int
    written: int
    spooled: int
    dropped: int
    without_content: int
    last_error: str | None


@dataclass(frozen=True)
class Settings:
    """The options of `capture_invocations`. Raises TypeError about another object as `s3`, and ValueError about one not allowed."""

    bucket: str
    prefix: str
    calls: str
    sampling: float
    s3: Any
    max_body_bytes: float
    memory_bytes: float
    batch_bytes: float
    batch_seconds: float
    spool_folder: str | os.PathLike[str] | None
    spool_bytes: float

    def __post_init__(self) -> None:
        if self.s3 is not None and (is_async(self.s3) or not is_client(self.s3, "s3")):
            raise TypeError(f"capture_invocations: s3; got: {self.s3!r}; expected: a client of boto3 for s3")
        bucket, prefix = self.bucket, self.prefix
        path = f"/{bucket}/{str(prefix).strip('/')}".rstrip("/")
        # A path in the spool folder.
        is_place = {type(bucket), type(prefix)} == {str} and bucket and "/" not in bucket and posixpath.normpath(path) == path
        is_share = self.calls in ("streams", "all") and 0 < self.sampling <= 1
        amounts = (self.max_body_bytes, self.memory_bytes, self.batch_bytes, self.batch_seconds, self.spool_bytes)
        if not (is_place and is_share and all(amount > 0 for amount in amounts)):
            expected = "a bucket's name; a prefix without empty parts and dots; streams or all; sampling to 1; the rest over 0"
            raise ValueError(f"capture_invocations: an option is not allowed; got: {self}; expected: {expected}")
