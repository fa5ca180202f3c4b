"""Captures what an application asks a SageMaker endpoint, and what it gets.

    captures = capture_invocations(boto3.client("sagemaker-runtime"), bucket="my-captures")
    captures.stats()
"""

from __future__ import annotations

import functools
import gc
import logging
import os
from typing import Any, Callable, Literal, cast

from botocore.client import BaseClient

from ._s3 import is_client
from ._sender import Sender as Captures
from ._settings import Stats, checked

__all__ = ["Captures", "Stats", "capture_all", "capture_invocations"]

_SERVICE = "sagemaker-runtime"
#: Of a client, its captures.
_CAPTURES = "_inference_monitor_captures"
#: Of `capture_all`.
_shared: Captures | None = None


def capture_invocations(
    client: Any, *, bucket: str, prefix: str = "", calls: Literal["streams", "all"] = "streams", sampling: float = 1, s3: Any = None,
    max_body_bytes: float = 1_000_000, memory_bytes: float = 8_000_000, batch_bytes: float = 1_000_000, batch_seconds: float = 5,
    spool_folder: str | os.PathLike[str] | None = None, spool_bytes: float = 256_000_000
) -> Captures:  # fmt: skip
    """Captures the calls of a client of SageMaker's runtime, of boto3 or aiobotocore, from now on, and returns the captures.

    Requests and replies stay what they are. A second call changes nothing, and returns the captures of the first.

    bucket, prefix: the place that the monitor's stack watches, as in Data Capture's DestinationS3Uri.
    calls: "streams" (default: streams, and calls that reached no container) or "all" (for endpoints without Data Capture).
    sampling: the share of the calls that is captured, over 0 and at most 1. Default 1.
    s3: a boto3 client for the bucket. Default: one with the region and credentials of `client`.
    max_body_bytes: a longer request or reply is captured without its content. Default 1 MB.
    memory_bytes: the bound on all captures in memory, those of open streams too. Default 8 MB.
    batch_bytes, batch_seconds: an object is written when so much waits, or after this time. Default 1 MB, 5 seconds.
    spool_folder, spool_bytes: a folder, and its bound, for what cannot be written to S3. Default: none, 256 MB.

    Raises TypeError about another object as a client, and ValueError about an option that is not allowed.
    """
    options = dict(locals())
    if not is_client(options.pop("client"), _SERVICE):
        raise TypeError(f"capture_invocations: client; got: {client!r}; expected: boto3's or aiobotocore's for {_SERVICE}")
    settings = checked(options)
    if not hasattr(client, _CAPTURES):
        Captures(settings).add(client)
    return cast(Captures, getattr(client, _CAPTURES))


def capture_all(
    *, bucket: str, prefix: str = "", calls: Literal["streams", "all"] = "streams", sampling: float = 1, s3: Any = None,
    max_body_bytes: float = 1_000_000, memory_bytes: float = 8_000_000, batch_bytes: float = 1_000_000, batch_seconds: float = 5,
    spool_folder: str | os.PathLike[str] | None = None, spool_bytes: float = 256_000_000
) -> Captures:  # fmt: skip
    """Captures the calls of all clients of SageMaker's runtime that are made from now on, also by libraries.

    Wraps the making of clients in botocore, which aiobotocore uses too. Returns the captures, which all clients share: they are written
    with the region of the first client, and the credentials of the one that made the last call. A second call changes nothing.
    Clients that were made earlier are not captured: a warning says how many there are.

    The options, and the errors about them, are those of `capture_invocations`.
    """
    global _shared
    settings = checked(dict(locals()))
    if _shared is None:
        _shared = Captures(settings)
        BaseClient.__init__ = _capturing(BaseClient.__init__, _shared)
        # Not by `isinstance`, which asks objects that stand for others.
        clients = [each for each in gc.get_objects() if issubclass(type(each), BaseClient) and is_client(each, _SERVICE)]
        if earlier := sum(not hasattr(client, _CAPTURES) for client in clients):
            text = "capture_all: %d clients of SageMaker's runtime were made earlier, and are not captured"
            logging.getLogger(__name__).warning(text, earlier)
    return _shared


def _capturing(initialize: Callable[..., None], captures: Captures) -> Callable[..., None]:
    @functools.wraps(initialize)
    def __init__(client: Any, *args: Any, **options: Any) -> None:
        initialize(client, *args, **options)
        with captures.losing(0):
            if is_client(client, _SERVICE):
                captures.add(client)

    return __init__
