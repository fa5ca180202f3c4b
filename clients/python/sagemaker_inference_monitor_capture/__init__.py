"""Captures what an application asks a SageMaker endpoint, and what it gets.

    captures = capture_invocations(boto3.client("sagemaker-runtime"), bucket="my-captures")
    captures.stats()
"""

import random

import botocore.session
from botocore.config import Config
from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from ._call import Call
from ._sender import Sender
from ._watch import watch_body, watch_events

__all__ = ["capture_invocations"]

_MB = 1_000_000
_NAME = "_sagemaker_inference_monitor_captures"
_STREAMED = "InvokeEndpointWithResponseStream"
_THROTTLED = ("Throttl", "TooManyRequests", "ModelNotReady")


def capture_invocations(client, *, bucket, **options):
    """Captures the calls of a boto3 client of SageMaker's runtime from now on, and returns the captures.

    Requests and replies stay what they are. A second call changes nothing, and returns the captures of the first.

    bucket, prefix: the place that the monitor's stack watches, as in Data Capture's DestinationS3Uri.
    calls: "streams" (default: streams, and calls that reached no container) or "all" (for endpoints without Data Capture).
    sampling: the share of the calls that is captured, over 0 and at most 1. Default 1.
    s3: a boto3 client for the bucket. Default: one with the region and credentials of `client`.
    max_body_bytes: a longer request or reply is captured without its content. Default 1 MB.
    memory_bytes: the bound on all captures in memory, those of open streams too. Default 16 MB.
    batch_bytes, batch_seconds: an object is written when so much waits, or after this time. Default 1 MB, 5 seconds.
    spool_folder, spool_bytes: a folder, and its bound, for what cannot be written to S3. Default: none, 256 MB.

    Raises TypeError about an option that is unknown, and ValueError about one that is not allowed.
    """
    there = getattr(client, _NAME, None)
    if there is not None:
        return there
    settings = _settings(bucket, **options)
    sender = Sender(settings, lambda: settings["s3"] or _s3_like(client))
    hooks = _Hooks(sender, settings)
    for operation in ("InvokeEndpoint", _STREAMED):
        for event, hook in hooks.by_event().items():
            client.meta.events.register(f"{event}.sagemaker-runtime.{operation}", hook)
    setattr(client, _NAME, sender)
    return sender


def _settings(
    bucket,
    prefix="",
    calls="streams",
    sampling=1,
    s3=None,
    max_body_bytes=_MB,
    memory_bytes=16 * _MB,
    batch_bytes=_MB,
    batch_seconds=5,
    spool_folder=None,
    spool_bytes=256 * _MB,
):
    given = locals()
    amounts = (max_body_bytes, memory_bytes, batch_bytes, batch_seconds, spool_bytes)
    for name, got, expected, is_allowed in (
        ("bucket", bucket, "the name of a bucket", isinstance(bucket, str) and bucket and "/" not in bucket),
        ("calls", calls, "streams or all", calls in ("streams", "all")),
        ("sampling", sampling, "a number over 0, at most 1", 0 < sampling <= 1),
        ("a size or time", min(amounts), "a number over 0", min(amounts) > 0),
    ):
        if not is_allowed:
            raise ValueError(f"capture_invocations: {name} is not allowed; got: {got!r}; expected: {expected}")
    return {**given, "prefix": prefix.strip("/")}


def _s3_like(client):
    session = botocore.session.get_session()
    # A session cannot be given credentials that renew themselves in another way.
    session._credentials = getattr(getattr(client, "_request_signer", None), "_credentials", None)
    config = Config(connect_timeout=5, read_timeout=15, retries={"total_max_attempts": 1})
    return session.create_client("s3", region_name=client.meta.region_name, config=config)


class _Hooks:
    """Handlers of boto3's events. Nothing that goes wrong in them reaches the application."""

    def __init__(self, sender, settings):
        self._sender, self._sampling, self._most = sender, settings["sampling"], settings["max_body_bytes"]
        self._is_all = settings["calls"] == "all"

    def by_event(self):
        return {
            "provide-client-params": self._quietly(self._began, is_first=True),
            "response-received": self._quietly(self._headers_came),
            "after-call": self._quietly(self._replied),
            "after-call-error": self._quietly(self._raised),
        }

    def _quietly(self, handle, is_first=False):
        def hook(context, **event):
            try:
                call = context.get(_NAME)
                if is_first or call is not None:
                    handle(call, context, **event)
            except Exception as error:
                self._sender.lose(1, error)

        return hook

    def _began(self, _, context, params, model, **__):
        if random.random() < self._sampling and isinstance(params.get("EndpointName"), str):
            context[_NAME] = Call(params, model.name == _STREAMED, self._most)

    def _headers_came(self, call, _, response_dict=None, **__):
        # Of the last attempt, if there are several.
        call.client["status"] = response_dict["status_code"] if response_dict else None
        if response_dict:
            call.client["firstByteMs"] = call.now()
            call.variant = response_dict["headers"].get("x-amzn-invoked-production-variant", call.variant)

    def _replied(self, call, _, http_response, parsed, **__):
        status, error = http_response.status_code, parsed.get("Error", {})
        if status < 300:
            if call.streamed or self._is_all:
                call.reply.kind = parsed.get("ContentType") or "application/octet-stream"
                if self._sender.begin(call):
                    (watch_events if call.streamed else watch_body)(parsed["Body"], call, self._sender)
            return
        code = str(error.get("Code", "Unknown"))
        if code == "ModelError":
            text = parsed.get("OriginalMessage") or error.get("Message") or ""
            # SageMaker captures the errors of unstreamed calls itself.
            if call.streamed or self._is_all:
                self._failed(call, "model", code, text.encode())
        elif status in (429, 503) or any(word in code for word in _THROTTLED):
            self._failed(call, "throttled", code)
        else:
            self._failed(call, "service" if status >= 500 else "refused", code)

    def _raised(self, call, _, exception, **__):
        is_late = isinstance(exception, (ReadTimeoutError, ConnectTimeoutError))
        self._failed(call, "timeout" if is_late else "no-connection", type(exception).__name__)

    def _failed(self, call, kind, name, reply=b""):
        call.client["error"] = {"kind": kind, "class": name[:100]}
        if self._sender.begin(call):
            self._sender.memory.add(call, call.reply, reply)
            self._sender.end(call, "failed")
