"""Handlers of boto3's events about a call. Nothing that goes wrong in them reaches the application."""

import functools
import random

from botocore.exceptions import ConnectTimeoutError, ReadTimeoutError

from ._call import Call
from ._watch import watch_body, watch_events

_CALL = "sagemaker_inference_monitor_call"
_STREAMED = "InvokeEndpointWithResponseStream"
_THROTTLED = ("Throttl", "TooManyRequests", "ModelNotReady")


class Hooks:
    def __init__(self, sender):
        self._sender, self._settings = sender, sender.settings

    def register(self, events):
        for event, handle in (
            ("provide-client-params", self._began),
            ("response-received", self._headers_came),
            ("after-call", self._replied),
            ("after-call-error", self._raised),
        ):
            for operation in ("InvokeEndpoint", _STREAMED):
                events.register(f"{event}.sagemaker-runtime.{operation}", functools.partial(self._quietly, handle))

    def _quietly(self, handle, context, **event):
        try:
            if handle == self._began:
                handle(context, **event)
            elif _CALL in context:
                handle(context[_CALL], **event)
        except Exception as error:
            self._sender.memory.release([context[_CALL]] if _CALL in context else [])
            self._sender.lose(1, error)

    def _began(self, context, params, model, **_):
        if random.random() < self._settings.sampling and isinstance(params.get("EndpointName"), str):
            context[_CALL] = Call(params, model.name == _STREAMED, self._sender)

    def _headers_came(self, call, response_dict=None, **_):
        # Of the last attempt, if there are several.
        call.client.update(status=None, firstByteMs=None)
        if response_dict:
            call.client.update(status=response_dict["status_code"], firstByteMs=call.now())
            call.variant = response_dict["headers"].get("x-amzn-invoked-production-variant", call.variant)

    def _replied(self, call, http_response, parsed, **_):
        status, error = http_response.status_code, parsed.get("Error", {})
        # SageMaker captures unstreamed replies, and the model's own errors, itself.
        is_ours = call.streamed or self._settings.calls == "all"
        code = str(error.get("Code", "Unknown"))
        if status < 300:
            if is_ours and self._sender.begin(call):
                call.reply.kind = parsed.get("ContentType") or "application/octet-stream"
                (watch_events if call.streamed else watch_body)(parsed["Body"], call)
        elif code == "ModelError":
            if is_ours:
                text = parsed.get("OriginalMessage") or error.get("Message") or ""
                self._failed(call, "model", code, text.encode())
        elif status in (429, 503) or any(word in code for word in _THROTTLED):
            self._failed(call, "throttled", code)
        else:
            self._failed(call, "service" if status >= 500 else "refused", code)

    def _raised(self, call, exception, **_):
        is_late = isinstance(exception, (ReadTimeoutError, ConnectTimeoutError))
        self._failed(call, "timeout" if is_late else "no-connection", type(exception).__name__)

    def _failed(self, call, kind, name, reply=b""):
        if self._sender.begin(call):
            self._sender.memory.add(call, call.reply, reply)
            call.end("failed", kind, name)
