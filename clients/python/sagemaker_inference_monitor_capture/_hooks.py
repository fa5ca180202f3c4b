"""Sees calls by boto3's events, and replies as the application reads them."""

import contextlib
import functools
import random
import weakref

from ._call import Call

_CALL = "sagemaker_inference_monitor_call"


def register(client, sender):
    credentials = client._request_signer._credentials
    for event, handle in (("provide-client-params", _began), ("after-call", _replied), ("after-call-error", _raised)):
        client.meta.events.register(f"{event}.sagemaker-runtime", functools.partial(_quietly, handle, sender, credentials))


def _quietly(handle, sender, credentials, context, **event):
    """Returns what aiobotocore awaits, in the loop of the call."""
    call = context.get(_CALL)
    with sender.losing(1, call):
        if call or handle is _began:
            handle(sender, call, context=context, **event)
        if call and credentials:
            return sender.credentials.take(credentials)
    return None


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
    if hasattr(body, "__aiter__"):
        stream, watching = body, _AsyncEvents if call.streamed else _AsyncBody
    else:
        stream, watching = (body, _Events) if call.streamed else (body._raw_stream, _Body)
    if watching is _Events:
        _become(body._raw_stream, _Chunks, call)
    _become(stream, watching, call)
    # A reply that the application forgets has ended. At the end of the process, the sender ends the open ones.
    weakref.finalize(stream, call.end, "left").atexit = False


def _become(stream, watching, call):
    stream._captured = call
    stream.__class__ = _class_of(watching, type(stream))


@functools.lru_cache(maxsize=None)
def _class_of(watching, replied):
    return type(replied.__name__, (watching, replied), {"__module__": replied.__module__})


class _Watched:
    def close(self):
        # Before: whoever reads in another thread gets an error from it.
        self._captured.end("left")
        return super().close()

    @contextlib.contextmanager
    def _breaking(self):
        try:
            yield
        except Exception as error:
            self._captured.end("broke", "stream", error)
            raise

    def _saw_event(self, event):
        self._captured.saw(event.get("PayloadPart", {}).get("Bytes", b""))

    def _saw_data(self, data, asked, is_all):
        self._captured.saw(data)
        if asked is None or asked < 0 or (asked > 0 and not data) or is_all:
            self._captured.end("whole")


class _Chunks:
    """The connection of a stream, which counts its bytes: botocore leaves out a frame that is not whole, and raises no error."""

    def stream(self, *args, **options):
        for chunk in super().stream(*args, **options):
            self._captured.frame_bytes += len(chunk)
            yield chunk


class _Frames(_Watched):
    def _parse_event(self, event):
        self._captured.frame_bytes -= event.prelude.total_length
        return super()._parse_event(event)

    def _end(self):
        is_cut = self._captured.frame_bytes > 0
        self._captured.end(*("broke", "stream", EOFError()) if is_cut else ("whole",))


class _Events(_Frames):
    def __iter__(self):
        with self._breaking():
            for event in super().__iter__():
                self._saw_event(event)
                yield event
            self._end()


class _Body(_Watched):
    def read(self, amt=None, *args, **options):
        with self._breaking():
            data = super().read(amt, *args, **options)
        self._saw_data(data, amt, getattr(self, "length_remaining", None) == 0)
        return data


class _AsyncEvents(_Frames):
    async def __aiter__(self):
        with self._breaking():
            async for event in super().__aiter__():
                self._saw_event(event)
                yield event
            self._captured.frame_bytes += getattr(self._raw_stream.content, "total_bytes", 0)
            self._end()


class _AsyncBody(_Watched):
    async def read(self, amt=None):
        with self._breaking():
            data = await super().read(amt)
        self._saw_data(data, amt, self._is_all())
        return data

    async def readinto(self, b):
        with self._breaking():
            count = await super().readinto(b)
        self._saw_data(bytes(b[:count]), len(b), self._is_all())
        return count

    def _is_all(self):
        return str(self.tell()) == str(self._content_length)
