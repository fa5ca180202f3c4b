"""The options of the captures, and their numbers."""

from __future__ import annotations

import posixpath
import types
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


def checked(options: dict[str, Any]) -> types.SimpleNamespace:
    """Returns the options. Raises TypeError about another object as `s3`, and ValueError about one that is not allowed."""
    settings = types.SimpleNamespace(**options)
    if settings.s3 is not None and (is_async(settings.s3) or not is_client(settings.s3, "s3")):
        raise TypeError(f"capture_invocations: s3; got: {settings.s3!r}; expected: a client of boto3 for s3")
    bucket, prefix = settings.bucket, settings.prefix
    path = f"/{bucket}/{str(prefix).strip('/')}".rstrip("/")
    # A path in the spool folder.
    is_place = {type(bucket), type(prefix)} == {str} and bucket and "/" not in bucket and posixpath.normpath(path) == path
    is_share = settings.calls in ("streams", "all") and 0 < settings.sampling <= 1
    amounts = [value for name, value in options.items() if name.endswith(("_bytes", "_seconds"))]
    if not (is_place and is_share and all(amount > 0 for amount in amounts)):
        expected = "a bucket's name; a prefix without empty parts and dots; streams or all; sampling to 1; the rest over 0"
        raise ValueError(f"capture_invocations: an option is not allowed; got: {options}; expected: {expected}")
    return settings
