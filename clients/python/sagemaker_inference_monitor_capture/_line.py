"""Writes calls as lines of SageMaker's Data Capture, with the object `client` beside it: docs/capture-client.md."""

from __future__ import annotations

import base64
import contextlib
import json
import re
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from ._call import Call, Side

#: Bytes that are encoded at once. A multiple of 3, so that pieces of base64 can be joined.
_SLICE = 24 * 1024
#: Bytes that are encoded before a pause, and the pause in seconds: who waits for the interpreter gets it.
_WORK_BYTES, _PAUSE = 8 * 1024, 0.0005


def encode(calls: list[Call], settings: SimpleNamespace, dropped: int) -> tuple[str, bytes, list[Call]]:
    """Returns a key, its lines, and the calls in them: those with the place and hour of the first, as many as fit."""
    place, start, lines = place_of(calls[0], settings), calls[0].start, bytearray()
    taken: list[Call] = []
    for call in calls:
        if len(lines) < settings.batch_bytes and (place_of(call, settings), f"{call.start:%j%H}") == (place, f"{start:%j%H}"):
            for part in _line_of(call, settings, 0 if taken else dropped):
                lines += part
                if len(lines) % _WORK_BYTES < len(part):
                    time.sleep(_PAUSE)
            taken.append(call)
    return f"{place}/{start:%Y/%m/%d/%H/%M-%S}-{start.microsecond // 1000:03d}-{calls[0].id}.jsonl", bytes(lines), taken


def place_of(call: Call, settings: SimpleNamespace) -> str:
    """Endpoint and variant, below the prefix: what SageMaker's layout has above the hour, which is 5 names of the key."""
    # SageMaker's names have no other characters. A key that S3 refuses would be tried for good.
    names = (re.sub(r"[^\w-]", "_", name, flags=re.ASCII)[:63] for name in (call.endpoint, call.variant))
    return "/".join(filter(None, (settings.prefix.strip("/"), *names)))


def _line_of(call: Call, settings: SimpleNamespace, dropped: int) -> Iterator[bytes]:
    """Yields a line as bytes, in pieces of bounded size and work, so that other threads can run between two of them."""
    has_reply = call.reply.total > 0 or call.ended != "failed"
    yield b'{"captureData":{"endpointInput":'
    yield from _side(call.request, "INPUT", _encoding(call.request.kind))
    if has_reply:
        yield b',"endpointOutput":'
        yield from _side(call.reply, "OUTPUT", _encoding(call.reply.kind, call.streamed))
    client = {
        **{"version": 1, "writer": "python", "calls": settings.calls, "sampling": float(settings.sampling), **call.client},
        "requestBytes": None if call.request.left else call.request.total,
        "replyBytes": call.reply.total if has_reply and call.reply.left != "unread" else None,
        "pieces": json.loads(b"[%s]" % call.pieces.data[:-1]) or None,
        "left": {name: side.left for name, side in (("request", call.request), ("reply", call.reply)) if side.left} or None,
        "dropped": dropped or None,
    }
    fields = json.dumps({name: value for name, value in client.items() if value is not None}, separators=(",", ":"))
    # Without the offset, +00:00.
    metadata = {"eventId": call.id, "inferenceTime": call.start.isoformat(timespec="milliseconds")[:-6] + "Z", **call.about}
    yield f'}},"eventMetadata":{json.dumps(metadata)},"eventVersion":"0","client":{fields}}}\n'.encode()


def _encoding(kind: str | None, streamed: bool = False) -> str:
    """The encoding that SageMaker gives to a content type by default; a stream is text, which AIPerf's loader passes over."""
    if kind and (streamed or re.match(r"(?i)text/csv\b", kind)):
        return "CSV"
    return "JSON" if re.match(r"(?i)[^;]*[/+]json\b", kind or "") else "BASE64"


def _side(side: Side, mode: str, wanted: str) -> Iterator[bytes]:
    yield f'{{"observedContentType":{json.dumps(side.kind)},"mode":"{mode}"'.encode()
    content: Any = side.data
    encoding = "BASE64"
    # Only now: whoever leaves bytes out says so before.
    side.left = side.left or False
    if not side.left:
        if wanted != encoding:
            with contextlib.suppress(UnicodeDecodeError):
                content, encoding = content.decode(), wanted
        yield b',"data":"'
        for at in range(0, len(content), _SLICE):
            part = content[at : at + _SLICE]
            yield base64.b64encode(part) if encoding == "BASE64" else json.dumps(part, ensure_ascii=False)[1:-1].encode()
        yield f'","encoding":"{encoding}"'.encode()
    yield b"}"
