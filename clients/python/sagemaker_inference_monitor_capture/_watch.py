"""Sees the pieces of a reply as the application reads them. The objects stay the same, and so do their bytes."""

import weakref

from botocore.eventstream import EventStream
from botocore.response import StreamingBody

from ._call import Call


def watch_events(stream, call: Call, sender):
    """Watches the events of a streamed reply."""
    stream._event_generator = _until_end(stream._event_generator, call, sender)
    _watch(stream, _Events, call, sender)


def watch_body(body, call: Call, sender):
    """Watches the body of a reply that is not streamed, which boto3 reads when the application does."""
    _watch(body, _Body, call, sender)


def _watch(stream, watched, call, sender):
    stream._capture = (call, sender)
    stream.__class__ = watched
    # A reply that the application forgets has ended. At the end of the process, the sender ends the open ones.
    weakref.finalize(stream, sender.forgotten.put, (call, None)).atexit = False


def _until_end(events, call, sender):
    try:
        yield from events
    except GeneratorExit:
        # Also from the garbage collector, where nothing may be locked.
        sender.forgotten.put((call, call.now()))
        raise
    except BaseException as error:
        _broke(call, sender, error)
        raise
    _end(call, sender, "whole")


def _broke(call, sender, error):
    if call.ended is None:
        name = getattr(error, "response", {}).get("Error", {}).get("Code") or type(error).__name__
        call.error = {"kind": "stream", "class": str(name)[:100]}
        _end(call, sender, "broke")


def _end(call, sender, ended):
    if call.ended is None:
        call.end(ended)
        sender.finish(call)


def _piece(call, sender, data):
    try:
        if call.ended is None:
            call.piece(len(data))
            sender.memory.add(call, call.reply, data)
    except Exception as error:
        sender.failed(error)


class _Events(EventStream):
    def _parse_event(self, event):
        call, sender = self._capture
        try:
            parsed = super()._parse_event(event)
        except Exception as error:
            _broke(call, sender, error)
            raise
        part = parsed.get("PayloadPart") if isinstance(parsed, dict) else None
        if part is not None:
            _piece(call, sender, part.get("Bytes", b""))
        return parsed

    def close(self):
        super().close()
        _end(*self._capture, "left")


class _Body(StreamingBody):
    def read(self, amt=None):
        call, sender = self._capture
        try:
            data = super().read(amt)
        except Exception as error:
            _broke(call, sender, error)
            raise
        self._saw(data, amt is None or amt < 0 or (amt > 0 and not data))
        return data

    def readinto(self, b):
        count = super().readinto(b)
        self._saw(bytes(memoryview(b)[:count]), count == 0 and len(b) > 0)
        return count

    def readlines(self):
        lines = super().readlines()
        self._saw(b"".join(lines), True)
        return lines

    def __enter__(self):
        # The application reads the connection itself.
        call, sender = self._capture
        sender.memory.leave_out(call, call.reply, "unreadable")
        return super().__enter__()

    def close(self):
        super().close()
        _end(*self._capture, "left")

    def _saw(self, data, is_end):
        call, sender = self._capture
        if data:
            _piece(call, sender, bytes(data))
        length = self._content_length
        if is_end or (length is not None and str(length) == str(call.reply.total)):
            _end(call, sender, "whole")
