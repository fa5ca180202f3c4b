"""Writes a call as a line of SageMaker's Data Capture, with the object `client` beside it: docs/capture-client.md."""

import base64
import contextlib
import datetime
import json
import re

#: Bytes that are encoded at once. A multiple of 3, so that pieces of base64 can be joined.
_SLICE = 24 * 1024


def iso(seconds):
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def line_of(call, settings, dropped):
    """Yields the line as bytes, in pieces of bounded size and work, so that other threads can run between two of them."""
    request, reply, has_failed = call.request, call.reply, call.ended == "failed"
    has_reply = reply.total > 0 or not has_failed
    yield b'{"captureData":{"endpointInput":'
    yield from _side(request, "INPUT", _encoding(request.kind))
    if has_reply:
        yield b',"endpointOutput":'
        yield from _side(reply, "OUTPUT", "BASE64" if has_failed else _encoding(reply.kind, call.streamed))
    left = {name: side.left for name, side in (("request", request), ("reply", reply)) if side.left}
    client = {
        **{"version": 1, "writer": "python", "calls": settings.calls, "sampling": float(settings.sampling), **call.client},
        "requestBytes": None if request.left else request.total,
        "replyBytes": reply.total if has_reply else None,
        "pieces": call.streamed and call.pieces or None,
        "left": left or None,
        "dropped": dropped or None,
    }
    metadata = {"eventId": call.id, "inferenceTime": iso(call.start), **call.about}
    yield f'}},"eventMetadata":{_json(metadata)},"eventVersion":"0","client":{_json(client)}}}\n'.encode()


def _json(fields):
    return json.dumps({name: value for name, value in fields.items() if value is not None}, separators=(",", ":"))


def _encoding(kind, streamed=False):
    """The encoding that SageMaker gives to a content type by default; a stream is text, which AIPerf's loader passes over."""
    kind = (kind or "").lower()
    if streamed or re.match(r"text/csv\b", kind):
        return "CSV"
    return "JSON" if re.match(r"[^;]*[/+]json\b", kind) else "BASE64"


def _side(side, mode, wanted):
    yield f'{{"observedContentType":{json.dumps(side.kind)},"mode":"{mode}"'.encode()
    if side.left is None:
        content, encoding = side.data, "BASE64"
        if wanted != encoding:
            with contextlib.suppress(UnicodeDecodeError):
                content, encoding = side.data.decode(), wanted
        yield b',"data":"'
        for at in range(0, len(content), _SLICE):
            part = content[at : at + _SLICE]
            yield base64.b64encode(part) if encoding == "BASE64" else json.dumps(part, ensure_ascii=False)[1:-1].encode()
        yield f'","encoding":"{encoding}"'.encode()
    yield b"}"
