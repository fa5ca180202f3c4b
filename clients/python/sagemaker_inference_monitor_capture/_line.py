"""Writes a call as a line of SageMaker's Data Capture, with the object `client` beside it: docs/capture-client.md."""

import base64
import codecs
import datetime
import json
import re

#: Bytes that are encoded at once. A multiple of 3, so that pieces of base64 can be joined.
_SLICE = 24 * 1024


def iso(seconds):
    time = datetime.datetime.fromtimestamp(seconds, datetime.timezone.utc)
    return time.strftime("%Y-%m-%dT%H:%M:%S.") + f"{time.microsecond // 1000:03d}Z"


def line_of(call, facts, dropped):
    """Yields the line as bytes, in pieces of bounded size and work, so that other threads can run between two of them."""
    yield b'{"captureData":{"endpointInput":'
    yield from _side(call.request, "INPUT", _encoding(call.request))
    if call.ended != "failed" or call.reply.total:
        yield b',"endpointOutput":'
        encoding = "BASE64" if call.ended == "failed" else "CSV" if call.streamed else _encoding(call.reply)
        yield from _side(call.reply, "OUTPUT", encoding)
    metadata = {
        "eventId": call.id,
        "inferenceId": call.inference_id,
        "inferenceTime": iso(call.start),
        "customAttributes": call.custom_attributes,
    }
    yield f'}},"eventMetadata":{_json(metadata)},"eventVersion":"0","client":{_json(_client(call, facts, dropped))}}}\n'.encode()


def _json(fields):
    there = {name: value for name, value in fields.items() if value is not None}
    return json.dumps(there, separators=(",", ":"))


def _encoding(side):
    kind = side.content_type or ""
    if re.match(r"[^;]*[/+]json\b", kind, re.IGNORECASE):
        return "JSON"
    return "CSV" if kind.lower().startswith("text/") else "BASE64"


def _side(side, mode, encoding):
    yield f'{{"observedContentType":{json.dumps(side.content_type)},"mode":"{mode}"'.encode()
    if side.left is None:
        if encoding != "BASE64" and not _is_utf8(side.data):
            encoding = "BASE64"
        yield b',"data":"'
        decoder = codecs.getincrementaldecoder("utf-8")()
        for at in range(0, len(side.data), _SLICE):
            part = side.data[at : at + _SLICE]
            yield base64.b64encode(part) if encoding == "BASE64" else _escaped(decoder.decode(part))
        yield f'","encoding":"{encoding}"'.encode()
    yield b"}"


def _escaped(text):
    return json.dumps(text, ensure_ascii=False)[1:-1].encode()


def _is_utf8(data):
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for at in range(0, len(data), _SLICE):
            decoder.decode(data[at : at + _SLICE])
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return False
    return True


def _client(call, facts, dropped):
    left = {name: side.left for name, side in (("request", call.request), ("reply", call.reply)) if side.left}
    is_stream = call.streamed and call.piece_count > 0
    return {
        "version": 1,
        "writer": "python",
        **facts,
        "streamed": call.streamed,
        "ended": call.ended,
        "status": call.status,
        "originalStatus": call.original_status,
        "error": call.error,
        "attempts": call.attempts,
        "firstByteMs": call.first_byte_ms,
        "firstContentMs": call.first_content_ms,
        "endMs": call.end_ms,
        "requestBytes": None if call.request.left in ("unreadable", "too-large") else call.request.total,
        "replyBytes": None if call.ended == "failed" and call.reply.total == 0 else call.reply.total,
        "pieceCount": call.piece_count if is_stream else None,
        "pieces": call.pieces if is_stream else None,
        "left": left or None,
        "dropped": dropped or None,
    }
