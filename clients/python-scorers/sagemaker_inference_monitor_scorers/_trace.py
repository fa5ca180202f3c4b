"""A captured call, as a scorer gets it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Dict, List, Mapping, Optional, Tuple

Message = Dict[str, Any]


class Text(str):
    """The words of a request or of a reply, with the messages of a chat in `messages`.

    Scorers that were written for the bodies of replies find the words there too: `outputs["generated_text"]`, and
    `outputs["choices"][0]["message"]["content"]`.
    """

    messages: List[Message]

    def __new__(cls, text: str, messages: Optional[List[Message]] = None) -> Text:
        made = super().__new__(cls, text)
        made.messages = messages or []
        return made

    def __getitem__(self, key: Any) -> Any:
        return self._body()[key] if isinstance(key, str) else super().__getitem__(key)

    def get(self, key: str, default: Any = None) -> Any:
        """Returns a field of the body, as of a dict."""
        return self._body().get(key, default)

    def _body(self) -> Dict[str, Any]:
        choices = self.messages or [{"role": "assistant", "content": str(self)}]
        return {"generated_text": str(self), "choices": [{"message": message} for message in choices]}


@dataclass(frozen=True)
class Trace:
    """A captured call. A fact that is not known is None."""

    trace_id: str
    #: When the endpoint was called, in ISO 8601.
    time: Optional[str]
    variant: Optional[str]
    #: None if the request, or the reply, was not captured.
    request: Optional[Text]
    reply: Optional[Text]
    #: Milliseconds of the whole call, and to its first token.
    duration_ms: Optional[float]
    first_token_ms: Optional[float]
    input_tokens: Optional[int]
    output_tokens: Optional[int]
    #: The true answer, where a person gave it.
    expectation: Optional[str]
    #: "request" and "reply", where long texts were cut.
    cut: Tuple[str, ...] = ()

    @staticmethod
    def of(record: Mapping[str, Any]) -> Trace:
        """Returns the call of a record of the request: see `schemas/scorer-request.json`."""
        tokens = record.get("tokens", {})
        return Trace(
            record["traceId"], record.get("time"), record.get("variant"), _text(record, "request"), _text(record, "reply"),
            record.get("durationMs"), record.get("firstTokenMs"), tokens.get("input"), tokens.get("output"),
            record.get("expectation"), tuple(record.get("cut", ())),
        )  # fmt: skip


def _text(record: Mapping[str, Any], side: str) -> Optional[Text]:
    return Text(record[side]["text"], record[side]["messages"]) if side in record else None
