"""Captures what an application asks a SageMaker endpoint, and what it gets.

    captures = capture_invocations(boto3.client("sagemaker-runtime"), bucket="my-captures")
    captures.stats()
"""

import posixpath
import types

from ._hooks import register
from ._s3 import is_async, is_client
from ._sender import Sender


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
    settings = types.SimpleNamespace(**locals())
    if not is_client(client, "sagemaker-runtime"):
        raise TypeError(f"capture_invocations: client; got: {client!r}; expected: boto3's or aiobotocore's for sagemaker-runtime")
    if s3 is not None and (is_async(s3) or not is_client(s3, "s3")):
        raise TypeError(f"capture_invocations: s3; got: {s3!r}; expected: a client of boto3 for s3")
    if not hasattr(client, "_inference_monitor_captures"):
        amounts = (max_body_bytes, memory_bytes, batch_bytes, batch_seconds, spool_bytes)
        path = f"/{bucket}/{str(prefix).strip('/')}".rstrip("/")
        # A path in the spool folder.
        is_place = {type(bucket), type(prefix)} == {str} and bucket and "/" not in bucket and posixpath.normpath(path) == path
        if not (is_place and calls in ("streams", "all") and 0 < sampling <= 1 and all(amount > 0 for amount in amounts)):
            expected = "a bucket's name; a prefix without empty parts and dots; streams or all; sampling to 1; the rest over 0"
            raise ValueError(f"capture_invocations: an option is not allowed; got: {settings}; expected: {expected}")
        client._inference_monitor_captures = Sender(settings)
        register(client, client._inference_monitor_captures)
    return client._inference_monitor_captures
