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
    return f"{time:%Y-%m-%dT%H:%M:%S}.{time.microsecond // 1000:03d}Z"


def line_of(call, settings, dropped):
    """Yields the line as bytes, in pieces of bounded size and work, so that other threads can run between two of them."""
    has_failed, reply = call.ended == "failed", call.reply
    client = {"version": 1, "writer": "python", "calls": settings.calls, "sampling": settings.sampling}
    yield b'{"captureData":{"endpointInput":'
    yield from _side(call.request, "INPUT", _encoding(call.request.kind))
    if reply.total or not has_failed:
        encoding = "BASE64" if has_failed else _encoding(reply.kind, call.streamed)
        yield b',"endpointOutput":'
        yield from _side(reply, "OUTPUT", encoding)
        client["replyBytes"] = reply.total
    if dropped:
        client["dropped"] = dropped
    if call.request.left is None:
        client["requestBytes"] = call.request.total
    if call.streamed and call.pieces:
        client["pieces"] = call.pieces
    left = {name: side.left for name, side in (("request", call.request), ("reply", reply)) if side.left}
    metadata = _json({"eventId": call.id, "inferenceTime": iso(call.start), **call.about})
    client = _json({**client, **call.client, "left": left or None})
    yield f'}},"eventMetadata":{metadata},"eventVersion":"0","client":{client}}}\n'.encode()


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
