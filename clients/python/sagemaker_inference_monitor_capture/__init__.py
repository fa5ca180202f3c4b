"""Captures what an application asks a SageMaker endpoint, and what it gets.

    captures = capture_invocations(boto3.client("sagemaker-runtime"), bucket="my-captures")
"""

import random

import botocore.session
from botocore.config import Config
from botocore.exceptions import BotoCoreError

from ._call import Call
from ._errors import kind_of_code, kind_of_exception
from ._memory import Memory
from ._sender import Sender
from ._watch import watch_body, watch_events

__all__ = ["capture_invocations", "Captures"]

_MB = 1_000_000
_ATTRIBUTE = "_sagemaker_inference_monitor_captures"
_STREAMED = "InvokeEndpointWithResponseStream"
#: Errors of calls that a container may have seen: SageMaker captures the unstreamed ones.
_CONTAINER_SAW = ("model", "stream")


class Captures:
    """The captures of one client."""

    def __init__(self, sender):
        self._sender = sender

    def flush(self, seconds=10.0):
        """Tries once to write all captures of calls that have ended, for at most so many seconds. Never raises.

        AWS Lambda stops the process between invocations: call it before the handler returns.
        """
        self._sender.flush(seconds)
        return self.stats()

    def stats(self):
        """Returns what became of the captures since the process started.

        open (streams that run), waiting, written (in S3), spooled (to the folder), dropped (lost), without_content,
        and last_error: the last failure of the capture, which is not one of the application's requests.
        """
        return self._sender.stats()


def capture_invocations(
    client,
    *,
    bucket,
    prefix="",
    calls="streams",
    sampling=1.0,
    s3=None,
    max_body_bytes=_MB,
    memory_bytes=32 * _MB,
    batch_bytes=_MB,
    batch_seconds=5.0,
    spool_folder=None,
    spool_bytes=256 * _MB,
):
    """Captures the calls of a boto3 client of SageMaker's runtime from now on.

    Requests and replies stay what they are. A second call changes nothing, and returns the captures of the first.

    bucket, prefix: the place that the monitor's stack watches, as in Data Capture's DestinationS3Uri.
    calls: "streams" (streams, and calls that reached no container) or "all" (for endpoints without Data Capture).
    sampling: the share of the calls that is captured, over 0 and at most 1.
    s3: a boto3 client for the bucket. Default: one with the region and credentials of `client`.
    max_body_bytes: a longer request or reply is captured without its content.
    memory_bytes: the bound on all captures in memory, those of open streams too.
    batch_bytes, batch_seconds: an object is written when so much waits, or after this time.
    spool_folder, spool_bytes: a folder, and its bound, for what cannot be written to S3. Default: none.

    Raises ValueError about an option that is not allowed.
    """
    there = getattr(client, _ATTRIBUTE, None)
    if there is not None:
        return there
    numbers = (max_body_bytes, memory_bytes, batch_bytes, batch_seconds, spool_bytes)
    for name, got, expected, ok in (
        ("bucket", bucket, "the name of a bucket", isinstance(bucket, str) and bucket and "/" not in bucket),
        ("calls", calls, "streams or all", calls in ("streams", "all")),
        ("sampling", sampling, "a number over 0, at most 1", 0 < sampling <= 1),
        ("a size or time", min(numbers), "a number over 0", min(numbers) > 0),
    ):
        if not ok:
            raise ValueError(f"capture_invocations: {name} is not allowed; got: {got!r}; expected: {expected}")
    sender = Sender(
        make_s3=(lambda: s3) if s3 is not None else (lambda: _s3_like(client)),
        memory=Memory(memory_bytes),
        facts={"calls": calls, "sampling": sampling},
        place=(bucket, prefix.strip("/")),
        batch=(batch_bytes, batch_seconds),
        spool=(spool_folder, spool_bytes),
    )
    _Hooks(sender, calls, sampling, max_body_bytes).register(client.meta.events)
    captures = Captures(sender)
    setattr(client, _ATTRIBUTE, captures)
    return captures


def _s3_like(client):
    session = botocore.session.get_session()
    credentials = getattr(getattr(client, "_request_signer", None), "_credentials", None)
    if credentials is not None:
        # A session cannot be given credentials that renew themselves in another way.
        session._credentials = credentials
    config = Config(connect_timeout=5, read_timeout=15, retries={"total_max_attempts": 1})
    return session.create_client("s3", region_name=client.meta.region_name, config=config)


class _Hooks:
    """Handlers of boto3's events. Nothing that goes wrong in them reaches the application."""

    def __init__(self, sender, calls, sampling, max_body_bytes):
        self._sender, self._calls, self._sampling, self._most = sender, calls, sampling, max_body_bytes

    def register(self, events):
        for operation in ("InvokeEndpoint", _STREAMED):
            for event, handle in (
                ("provide-client-params", self._begins),
                ("response-received", self._headers_came),
                ("after-call", self._ended),
                ("after-call-error", self._raised),
            ):
                events.register(f"{event}.sagemaker-runtime.{operation}", self._quietly(handle))

    def _quietly(self, handle):
        def hook(**event):
            try:
                call = event["context"].get(_ATTRIBUTE)
                if call is not None or handle == self._begins:
                    handle(call, event)
            except Exception as error:
                self._sender.lose(1)
                self._sender.failed(error)

        return hook

    def _begins(self, _, event):
        params = event["params"]
        if random.random() < self._sampling and isinstance(params.get("EndpointName"), str):
            event["context"][_ATTRIBUTE] = Call(params, event["model"].name == _STREAMED, self._most)

    def _headers_came(self, call, event):
        reply = event.get("response_dict")
        # Of the last attempt, if there are several.
        call.status = reply["status_code"] if reply else None
        if reply:
            call.first_byte_ms = call.now()
            call.variant = reply["headers"].get("x-amzn-invoked-production-variant")

    def _ended(self, call, event):
        parsed = event["parsed"]
        call.attempts = parsed.get("ResponseMetadata", {}).get("RetryAttempts", 0) + 1
        if event["http_response"].status_code >= 300:
            code = str(parsed.get("Error", {}).get("Code", "Unknown"))
            self._failed(call, kind_of_code(code, call.status), code, parsed)
        elif call.streamed or self._calls == "all":
            call.reply.content_type = parsed.get("ContentType") or "application/octet-stream"
            self._sender.begin(call)
            (watch_events if call.streamed else watch_body)(parsed["Body"], call, self._sender)

    def _raised(self, call, event):
        call.attempts = event["context"].get("retries", {}).get("attempt")
        error = event["exception"]
        kind = kind_of_exception(error) if isinstance(error, (BotoCoreError, OSError)) else "no-connection"
        self._failed(call, kind, type(error).__name__, {})

    def _failed(self, call, kind, name, parsed):
        if self._calls != "all" and not call.streamed and kind in _CONTAINER_SAW:
            return
        call.error = {"kind": kind, "class": name[:100]}
        call.end("failed")
        self._sender.begin(call)
        if kind == "model":
            call.original_status = parsed.get("OriginalStatusCode")
            text = parsed.get("OriginalMessage") or parsed.get("Error", {}).get("Message") or ""
            self._sender.memory.add(call, call.reply, text.encode())
        self._sender.finish(call)
