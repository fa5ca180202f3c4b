"""Sees calls by boto3's events, and replies as the application reads them."""

import functools
import random
import weakref

from ._call import Call

_CALL = "sagemaker_inference_monitor_call"


def register(events, sender):
    for event, handle in (("provide-client-params", _began), ("after-call", _replied), ("after-call-error", _raised)):
        events.register(f"{event}.sagemaker-runtime", functools.partial(_quietly, handle, sender))


def _quietly(handle, sender, context, **event):
    call = context.get(_CALL)
    with sender.losing(1, call):
        if call or handle is _began:
            handle(sender, call, context=context, **event)


def _began(sender, _, context, params, model, **__):
    if model.name in ("InvokeEndpoint", "InvokeEndpointWithResponseStream") and random.random() < sender.settings.sampling:
        context[_CALL] = Call(params, "Stream" in model.name, sender)


def _replied(sender, call, http_response, parsed, **_):
    status, code = http_response.status_code, str(parsed.get("Error", {}).get("Code"))
    call.client.update(status=status, firstByteMs=call.now())
    call.variant = http_response.headers.get("x-amzn-invoked-production-variant", call.variant)
    is_models = status < 300 or code == "ModelError"
    # SageMaker captures unstreamed replies, and the model's own errors, itself.
    if call.streamed or sender.settings.calls == "all" or not is_models:
        sender.begin(call)
        if status < 300:
            call.reply.kind = parsed.get("ContentType") or "application/octet-stream"
            _watch(parsed["Body"], call)
        else:
            call.reply.add(str(parsed.get("OriginalMessage", "")).encode())
            call.end("failed", "model" if is_models else _kind_of(status, code), parsed)


def _kind_of(status, code):
    is_throttled = status in (429, 503) or any(word in code for word in ("Throttl", "TooManyRequests", "ModelNotReady"))
    return "throttled" if is_throttled else "service" if status >= 500 else "refused"


def _raised(sender, call, exception, **_):
    sender.begin(call)
    # ConnectTimeoutError and ReadTimeoutError.
    call.end("failed", "timeout" if "Timeout" in type(exception).__name__ else "no-connection", exception)


def _watch(body, call):
    """Watches the events of a streamed reply; or a reply that is not streamed, which boto3 reads when the application does."""
    stream, watching = (body, _Events) if call.streamed else (body._raw_stream, _Body)
    stream._captured = call
    stream.__class__ = _class_of(watching, type(stream))
    # A reply that the application forgets has ended. At the end of the process, the sender ends the open ones.
    weakref.finalize(stream, call.end, "left").atexit = False


@functools.lru_cache(maxsize=None)
def _class_of(watching, replied):
    return type(replied.__name__, (watching, replied), {"__module__": replied.__module__})


class _Watched:
    def close(self):
        # Before: whoever reads in another thread gets an error from it.
        self._captured.end("left")
        super().close()


class _Events(_Watched):
    def __iter__(self):
        try:
            for event in super().__iter__():
                self._captured.saw(event.get("PayloadPart", {}).get("Bytes", b""))
                yield event
            self._captured.end("whole")
        except Exception as error:
            self._captured.end("broke", "stream", error)
            raise


class _Body(_Watched):
    def read(self, amt=None, *args, **options):
        try:
            data = super().read(amt, *args, **options)
        except Exception as error:
            self._captured.end("broke", "stream", error)
            raise
        self._captured.saw(data)
        if amt is None or (amt > 0 and not data) or getattr(self, "length_remaining", None) == 0:
            self._captured.end("whole")
        return data
