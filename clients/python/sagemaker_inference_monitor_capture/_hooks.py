"""Handlers of boto3's events about a call. Nothing that goes wrong in them reaches the application."""

import functools
import random

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from ._call import Call
from ._watch import watch

_CALL = "sagemaker_inference_monitor_call"
_STREAMED = "InvokeEndpointWithResponseStream"


def register(events, sender):
    for event, handle in (("provide-client-params", _began), ("after-call", _replied), ("after-call-error", _raised)):
        for operation in ("InvokeEndpoint", _STREAMED):
            events.register(f"{event}.sagemaker-runtime.{operation}", functools.partial(_quietly, handle, sender))


def _quietly(handle, sender, context, **event):
    try:
        if handle is _began:
            handle(sender, context, **event)
        elif _CALL in context:
            handle(sender, context[_CALL], **event)
    except Exception as error:
        sender.memory.release([context[_CALL]] if _CALL in context else [])
        sender.lose(1, error)


def _began(sender, context, params, model, **_):
    if random.random() < sender.settings.sampling:
        context[_CALL] = Call(params, model.name == _STREAMED, sender)


def _replied(sender, call, http_response, parsed, **_):
    call.client.update(status=http_response.status_code, firstByteMs=call.now())
    call.variant = http_response.headers.get("x-amzn-invoked-production-variant", call.variant)
    error = parsed.get("Error", {})
    code = str(error.get("Code", "Unknown"))
    kind = _kind_of(http_response.status_code, code)
    # SageMaker captures unstreamed replies, and the model's own errors, itself.
    if kind not in (None, "model"):
        call.fail(kind, code)
    elif call.streamed or sender.settings.calls == "all":
        if kind == "model":
            call.fail(kind, code, str(parsed.get("OriginalMessage") or error.get("Message", "")).encode())
        else:
            sender.begin(call)
            call.reply.kind = parsed.get("ContentType") or "application/octet-stream"
            watch(parsed["Body"], call)


def _kind_of(status, code):
    if status < 300:
        return None
    if code == "ModelError":
        return "model"
    if status in (429, 503) or any(word in code for word in ("Throttl", "TooManyRequests", "ModelNotReady")):
        return "throttled"
    return "service" if status >= 500 else "refused"


def _raised(sender, call, exception, **_):
    is_late = isinstance(exception, (ReadTimeoutError, ConnectTimeoutError))
    call.fail("timeout" if is_late else "no-connection", type(exception).__name__)
