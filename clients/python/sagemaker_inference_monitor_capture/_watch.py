"""Sees the pieces of a reply as the application reads them. The objects stay the same, and so do their bytes."""

import functools
import weakref

from botocore.eventstream import EventStream


def watch_events(stream, call, sender):
    """Watches the events of a streamed reply."""
    stream._event_generator = _until_end(stream._event_generator, call, sender)
    _watch(stream, _Events, call, sender)


def watch_body(body, call, sender):
    """Watches a reply that is not streamed, which boto3 reads when the application does."""
    raw, length = body._raw_stream, body._content_length
    _watch(raw, _read_by(type(raw)), call, sender)
    raw._most = None if length is None else int(length)


def _watch(stream, watched, call, sender):
    stream._captured = (call, sender)
    stream.__class__ = watched
    # A reply that the application forgets has ended. At the end of the process, the sender ends the open ones.
    weakref.finalize(stream, sender.end, call, "left").atexit = False


def _until_end(events, call, sender):
    try:
        yield from events
        sender.end(call, "whole")
    except Exception as error:
        _broke(call, sender, error)
        raise


def _broke(call, sender, error):
    name = getattr(error, "response", {}).get("Error", {}).get("Code") or type(error).__name__
    if call.ended is None:
        call.client["error"] = {"kind": "stream", "class": str(name)[:100]}
    sender.end(call, "broke")


def _saw(call, sender, data):
    try:
        if call.ended is None:
            call.piece(len(data))
            sender.memory.add(call, call.reply, bytes(data))
    except Exception as error:
        sender.lose(0, error)


class _Events(EventStream):
    def _parse_event(self, event):
        call, sender = self._captured
        try:
            parsed = super()._parse_event(event)
        except Exception as error:
            _broke(call, sender, error)
            raise
        if "PayloadPart" in (parsed or {}):
            _saw(call, sender, parsed["PayloadPart"].get("Bytes", b""))
        return parsed

    def close(self):
        super().close()
        call, sender = self._captured
        sender.end(call, "left")


@functools.lru_cache(maxsize=None)
def _read_by(raw_class):
    """Returns a class of connections that can be watched."""

    class Watched(raw_class):
        def read(self, *args, **kwargs):
            call, sender = self._captured
            try:
                data = super().read(*args, **kwargs)
            except Exception as error:
                _broke(call, sender, error)
                raise
            amount = args[0] if args else kwargs.get("amt")
            if data:
                _saw(call, sender, data)
            if amount is None or (amount > 0 and not data) or call.reply.total == self._most:
                sender.end(call, "whole")
            return data

        def close(self):
            super().close()
            call, sender = self._captured
            sender.end(call, "left")

    return Watched
