"""Sees the pieces of a reply as the application reads them. The objects stay the same, and so do their bytes."""

import functools
import weakref


def watch(body, call):
    """Watches the events of a streamed reply; or a reply that is not streamed, which boto3 reads when the application does."""
    stream, watching = (body, _Events) if call.streamed else (body._raw_stream, _Body)
    stream._captured, stream._captured_length = call, int(getattr(body, "_content_length", None) or -1)
    stream.__class__ = _class_of(watching, type(stream))
    # A reply that the application forgets has ended. At the end of the process, the sender ends the open ones.
    weakref.finalize(stream, call.forget).atexit = False


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
                if "PayloadPart" in event:
                    self._captured.saw(event["PayloadPart"].get("Bytes", b""))
                yield event
            self._captured.end("whole")
        except Exception as error:
            self._captured.broke(error)
            raise


class _Body(_Watched):
    def read(self, amt=None, *args, **options):
        try:
            data = super().read(amt, *args, **options)
        except Exception as error:
            self._captured.broke(error)
            raise
        if data:
            self._captured.saw(data)
        if amt is None or (amt > 0 and not data) or self._captured.reply.total == self._captured_length:
            self._captured.end("whole")
        return data
