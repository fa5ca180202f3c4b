"""Sees calls by boto3's events, and replies as the application reads them."""

from __future__ import annotations

import contextlib
import functools
import random
import weakref
from collections.abc import AsyncIterator, Iterator
from typing import Any, Callable, cast

from ._call import Call

_CALL = "sagemaker_inference_monitor_call"


def register(client: Any, sender: Any) -> None:
    credentials = client._request_signer._credentials
    for event, handle in (("provide-client-params", _began), ("after-call", _replied), ("after-call-error", _raised)):
        client.meta.events.register(f"{event}.sagemaker-runtime", functools.partial(_quietly, handle, sender, credentials))


def _quietly(handle: Callable[..., None], sender: Any, credentials: Any, context: dict[str, Any], **event: Any) -> Any:
    """Returns what aiobotocore awaits, in the loop of the call."""
    call = context.get(_CALL)
    with sender.losing(1, call):
        if call or handle is _began:
            handle(sender, call, context=context, **event)
        if call and credentials:
            return sender.credentials.take(credentials)
    return None


def _began(sender: Any, _: None, context: dict[str, Any], params: dict[str, Any], model: Any, **__: Any) -> None:
    if model.name in ("InvokeEndpoint", "InvokeEndpointWithResponseStream") and random.random() < sender.settings.sampling:
        context[_CALL] = Call(params, "Stream" in model.name, sender)


def _replied(sender: Any, call: Call, http_response: Any, parsed: dict[str, Any], **_: Any) -> None:
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


def _kind_of(status: int, code: str) -> str:
    is_throttled = status in (429, 503) or any(word in code for word in ("Throttl", "TooManyRequests", "ModelNotReady"))
    return "throttled" if is_throttled else "service" if status >= 500 else "refused"


def _raised(sender: Any, call: Call, exception: Exception, **_: Any) -> None:
    sender.begin(call)
    # ConnectTimeoutError and ReadTimeoutError.
    call.end("failed", "timeout" if "Timeout" in type(exception).__name__ else "no-connection", exception)


def _watch(body: Any, call: Call) -> None:
    """Watches the events of a streamed reply; or a reply that is not streamed, which boto3 reads when the application does."""
    if hasattr(body, "__aiter__"):
        stream = _become(body, _AsyncEvents if call.streamed else _AsyncBody, call)
    elif call.streamed:
        _become(body._raw_stream, _Chunks, call)
        stream = _become(body, _Events, call)
    else:
        stream = _become(body._raw_stream, _Body, call)
    # A reply that the application forgets has ended. At the end of the process, the sender ends the open ones.
    weakref.finalize(stream, call.end, "left").atexit = False


def _become(stream: Any, watching: type, call: Call) -> Any:
    stream._captured, replied = call, cast(Any, type(stream))
    stream.__class__ = _class_of(watching, replied)
    return stream


@functools.lru_cache(maxsize=None)
def _class_of(watching: type, replied: type) -> type:
    return type(replied.__name__, (watching, replied), {"__module__": replied.__module__})


#: What the classes below become a part of is only known when a reply comes.
_Replied: Any = object


class _Watched(_Replied):  # type: ignore[misc]
    def close(self) -> Any:
        # Before: whoever reads in another thread gets an error from it.
        self._captured.end("left")
        return super().close()

    @contextlib.contextmanager
    def _breaking(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._captured.end("broke", "stream", error)
            raise

    def _saw_event(self, event: dict[str, Any]) -> None:
        self._captured.saw(event.get("PayloadPart", {}).get("Bytes", b""))

    def _saw_data(self, data: bytes, asked: int | None, is_all: bool) -> None:
        self._captured.saw(data)
        if asked is None or asked < 0 or (asked > 0 and not data) or is_all:
            self._captured.end("whole")


class _Chunks(_Replied):  # type: ignore[misc]
    """The connection of a stream, which counts its bytes: botocore leaves out a frame that is not whole, and raises no error."""

    def stream(self, *args: Any, **options: Any) -> Iterator[bytes]:
        for chunk in super().stream(*args, **options):
            self._captured.frame_bytes += len(chunk)
            yield chunk


class _Frames(_Watched):
    def _parse_event(self, event: Any) -> Any:
        self._captured.frame_bytes -= event.prelude.total_length
        return super()._parse_event(event)

    def _end(self) -> None:
        if self._captured.frame_bytes > 0:
            self._captured.end("broke", "stream", EOFError())
        self._captured.end("whole")


class _Events(_Frames):
    def __iter__(self) -> Iterator[Any]:
        with self._breaking():
            for event in super().__iter__():
                self._saw_event(event)
                yield event
            self._end()


class _Body(_Watched):
    def read(self, amt: int | None = None, *args: Any, **options: Any) -> Any:
        with self._breaking():
            data = super().read(amt, *args, **options)
        self._saw_data(data, amt, getattr(self, "length_remaining", None) == 0)
        return data


class _AsyncEvents(_Frames):
    async def __aiter__(self) -> AsyncIterator[Any]:
        with self._breaking():
            async for event in super().__aiter__():
                self._saw_event(event)
                yield event
            self._captured.frame_bytes += getattr(self._raw_stream.content, "total_bytes", 0)
            self._end()


class _AsyncBody(_Watched):
    async def read(self, amt: int | None = None) -> Any:
        with self._breaking():
            data = await super().read(amt)
        self._saw_data(data, amt, self._is_all())
        return data

    async def readinto(self, b: Any) -> Any:
        with self._breaking():
            count = await super().readinto(b)
        self._saw_data(bytes(b[:count]), len(b), self._is_all())
        return count

    def _is_all(self) -> bool:
        return str(self.tell()) == str(self._content_length)
