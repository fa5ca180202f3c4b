"""Captures what an application asks a SageMaker endpoint, and what it gets.

    captures = capture_invocations(boto3.client("sagemaker-runtime"), bucket="my-captures")
    captures.stats()
"""

import functools
import gc
import logging
import posixpath
import types

from botocore.client import BaseClient

from ._s3 import is_async, is_client
from ._sender import Sender

_SERVICE = "sagemaker-runtime"
#: Of `capture_all`.
_shared = None


def capture_invocations(
    client, *, bucket, prefix="", calls="streams", sampling=1, s3=None, max_body_bytes=1_000_000, memory_bytes=8_000_000,
    batch_bytes=1_000_000, batch_seconds=5, spool_folder=None, spool_bytes=256_000_000
):  # fmt: skip
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
    if not is_client(client, _SERVICE):
        raise TypeError(f"capture_invocations: client; got: {client!r}; expected: boto3's or aiobotocore's for {_SERVICE}")
    options = dict(locals())
    if not hasattr(client, "_inference_monitor_captures"):
        del options["client"]
        sender = Sender(_checked("capture_invocations", **options))
        sender.add(client)
        client._inference_monitor_captures = sender
    return client._inference_monitor_captures


def capture_all(
    *, bucket, prefix="", calls="streams", sampling=1, s3=None, max_body_bytes=1_000_000, memory_bytes=8_000_000,
    batch_bytes=1_000_000, batch_seconds=5, spool_folder=None, spool_bytes=256_000_000
):  # fmt: skip
    """Captures the calls of all clients of SageMaker's runtime that are made from now on, also by libraries.

    Wraps the making of clients in botocore, which aiobotocore uses too. Returns the captures, which all clients share: they are written
    with the region of the first client, and the credentials of the one that made the last call. A second call changes nothing.
    Clients that were made earlier are not captured: a warning says how many there are.

    The options, and the errors about them, are those of `capture_invocations`.
    """
    global _shared
    options = dict(locals())
    if _shared is None:
        _shared = Sender(_checked("capture_all", **options))
        BaseClient.__init__ = _capturing(BaseClient.__init__, _shared)
        # Not by `isinstance`, which asks objects that stand for others.
        clients = [each for each in gc.get_objects() if issubclass(type(each), BaseClient) and is_client(each, _SERVICE)]
        if earlier := sum(not hasattr(client, "_inference_monitor_captures") for client in clients):
            text = "capture_all: %d clients of SageMaker's runtime were made earlier, and are not captured"
            logging.getLogger(__name__).warning(text, earlier)
    return _shared


def _capturing(initialize, sender):
    @functools.wraps(initialize)
    def __init__(client, *args, **options):
        initialize(client, *args, **options)
        with sender.losing(0):
            if is_client(client, _SERVICE):
                sender.add(client)
                client._inference_monitor_captures = sender

    return __init__


def _checked(place, **options):
    """Returns the options, if they are allowed."""
    settings = types.SimpleNamespace(**options)
    if settings.s3 is not None and (is_async(settings.s3) or not is_client(settings.s3, "s3")):
        raise TypeError(f"{place}: s3; got: {settings.s3!r}; expected: a client of boto3 for s3")
    bucket, prefix = settings.bucket, settings.prefix
    amounts = [value for name, value in options.items() if name.endswith(("_bytes", "_seconds"))]
    path = f"/{bucket}/{str(prefix).strip('/')}".rstrip("/")
    # A path in the spool folder.
    is_place = {type(bucket), type(prefix)} == {str} and bucket and "/" not in bucket and posixpath.normpath(path) == path
    is_share = settings.calls in ("streams", "all") and 0 < settings.sampling <= 1
    if not (is_place and is_share and all(amount > 0 for amount in amounts)):
        expected = "a bucket's name; a prefix without empty parts and dots; streams or all; sampling to 1; the rest over 0"
        raise ValueError(f"{place}: an option is not allowed; got: {options}; expected: {expected}")
    return settings
