"""What makes a function a scorer, and a scorer a Lambda function."""

from __future__ import annotations

import asyncio
import decimal
import enum
import functools
import inspect
import math
import numbers
from dataclasses import dataclass
from typing import (
    Any, Awaitable, Callable, Dict, List, Literal, Mapping, Optional, Sequence, Union, get_args, get_origin, get_type_hints, overload
)  # fmt: skip

from ._trace import Trace

#: What a function may ask for, by the names of its parameters.
_ARGUMENTS: Dict[str, Callable[[Trace], Any]] = {
    "outputs": lambda trace: trace.reply,
    "inputs": lambda trace: {"prompt": trace.request, "messages": getattr(trace.request, "messages", []), "parameters": {}},
    "request": lambda trace: trace.request,
    "reply": lambda trace: trace.reply,
    "expectation": lambda trace: trace.expectation,
    "expectations": lambda trace: {} if trace.expectation is None else {"expected_response": trace.expectation},
    "trace": lambda trace: trace,
}
_NEEDS = {"outputs": "reply", "reply": "reply", "inputs": "request", "request": "request"}
#: The kind of the values by the annotation of the result.
_VALUES: Dict[Any, str] = {float: "number", int: "number", bool: "boolean"}

#: Characters. 50 results have room in a reply of 1 MB, whatever the characters.
_MAX_TEXT = 1500

#: What ends the scoring of one record. A scorer that calls `sys.exit` does not end the others.
_CAUGHT = (Exception, SystemExit, asyncio.CancelledError)


@dataclass
class Feedback:
    """A value with its reason.

    value: a number, a boolean, or one of a few strings.
    usd: what this record cost, in US dollars.
    name: only for a check: another name than the scorer's is an error.
    error: why there is no value, in place of one.
    """

    value: Any = None
    rationale: Optional[str] = None
    usd: Optional[float] = None
    name: Optional[str] = None
    error: Union[Exception, str, None] = None


class Scorer:
    """A function that scores one captured call. Called, it is that function."""

    def __init__(self, function: Callable[..., Any], name: Optional[str] = None) -> None:
        self.function = function
        self.name: str = name or function.__name__
        signature = inspect.signature(function)
        given = [one for one in signature.parameters.values() if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)]
        unknown = [one.name for one in given if one.name not in _ARGUMENTS and one.default is one.empty]
        if unknown:
            raise TypeError(f"{self.name}: parameters; got: {', '.join(unknown)}; expected: {', '.join(_ARGUMENTS)}")
        self._names = [one.name for one in given if one.name in _ARGUMENTS]
        #: "request" and "reply": the sides without which the function is not asked.
        self.needs = sorted({_NEEDS[name] for name in self._names if name in _NEEDS}) or ["reply"]
        #: "number", "boolean", or the strings of a Literal, by the annotation of the result. Empty: any value.
        self.values: Union[str, List[str]] = _values(function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(*args, **kwargs)

    def results(self, records: Sequence[Mapping[str, Any]]) -> List[Dict[str, Any]]:
        """Returns a result for each record, in their order. An exception is the result of its record."""
        ended = [self._begin(record) for record in records]
        waiting = [index for index, one in enumerate(ended) if inspect.isawaitable(one)]
        if waiting:
            for index, one in zip(waiting, _loop().run_until_complete(_all([ended[index] for index in waiting]))):
                ended[index] = one
        return [_result(one) for one in ended]

    def _begin(self, record: Mapping[str, Any]) -> Any:
        try:
            trace = Trace.of(record)
            return self.function(**{name: _ARGUMENTS[name](trace) for name in self._names})
        except _CAUGHT as error:
            return error


def _values(function: Callable[..., Any]) -> Union[str, List[str]]:
    try:
        result = get_type_hints(function).get("return")
        return list(get_args(result)) if get_origin(result) is Literal else _VALUES.get(result, [])
    except Exception:  # An annotation that cannot be read.
        return []


@overload
def scorer(function: Callable[..., Any]) -> Scorer: ...
@overload
def scorer(*, name: Optional[str] = None, **_: Any) -> Callable[[Callable[..., Any]], Scorer]: ...
def scorer(function: Optional[Callable[..., Any]] = None, *, name: Optional[str] = None, **_: Any) -> Any:
    """Makes a function a scorer: `@scorer`, or `@scorer(name="…")`.

    The function names what it asks for: any of `outputs`, `inputs`, `request`, `reply`, `expectation`, `expectations` and
    `trace`. It returns a number, a boolean, a string, or a `Feedback`. It may be `async`: then the calls of a batch run at the
    same time. Other options of MLflow's decorator, such as `aggregations`, are accepted and have no effect.

    Raises TypeError about a parameter of another name.
    """
    return functools.partial(Scorer, name=name) if function is None else Scorer(function, name)


def serve(*scorers: Union[Scorer, Callable[..., Any]]) -> Callable[..., Dict[str, Any]]:
    """Returns the handler of a Lambda function with these scorers: `handler = serve(custom_metric)`."""
    known = {one.name: one for one in (each if isinstance(each, Scorer) else Scorer(each) for each in scorers)}

    def handler(event: Mapping[str, Any], context: Any = None) -> Dict[str, Any]:
        asked = known.get(event["scorer"])
        if asked is not None:
            return {"results": asked.results(event["records"])}
        message = f"got: {event['scorer']}; expected: {', '.join(known)}"
        return {"error": {"name": "UnknownScorer", "message": message}}

    return handler


# One loop for all batches: a client that an async scorer keeps belongs to its loop.
@functools.lru_cache(maxsize=None)
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def _all(waiting: Sequence[Awaitable[Any]]) -> List[Any]:
    return await asyncio.gather(*(_awaited(one) for one in waiting))


async def _awaited(one: Awaitable[Any]) -> Any:
    try:
        return await one
    except _CAUGHT as error:
        return error


def _result(given: Any) -> Dict[str, Any]:
    """Returns what a function returned, or the exception that it raised, in the form of the reply."""
    try:
        if isinstance(given, (list, tuple)) and len(given) == 1:
            given = given[0]
        if isinstance(given, BaseException):
            return _error(given)
        # Ours, or MLflow's.
        if not hasattr(given, "rationale"):
            return {"value": _plain(given)}
        if given.error is not None:
            return _error(given.error)
        texts = {field: _cut(text) for field in ("rationale", "name") if (text := getattr(given, field)) is not None}
        usd = getattr(given, "usd", None)
        return {"value": _plain(given.value), **texts, **({} if usd is None else {"usd": _number("usd", usd)})}
    except _CAUGHT as fault:
        return _error(fault)


def _plain(value: Any) -> Union[bool, float, str]:
    if isinstance(value, enum.Enum):
        value = value.value
    if not isinstance(value, str) and callable(getattr(value, "item", None)):
        value = value.item()  # A scalar of numpy or torch.
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and len(value) <= _MAX_TEXT:
        return _cut(value)
    if isinstance(value, str):
        raise ValueError(f"value; got: {len(value)} characters; expected: at most {_MAX_TEXT}")
    return _number("value", value)


def _number(field: str, value: Any) -> float:
    if not isinstance(value, (numbers.Real, decimal.Decimal)):
        raise TypeError(f"{field}; got: {type(value).__name__}; expected: a number, a boolean, a string or a Feedback")
    number = float(value)
    if not math.isfinite(number):
        raise ValueError(f"{field}; got: {number}; expected: a finite number")
    return number


def _error(error: Any) -> Dict[str, Any]:
    """Returns an exception, or MLflow's AssessmentError, as the error of a record."""
    name = getattr(error, "error_code", None) or ("ScorerError" if isinstance(error, str) else type(error).__name__)
    try:
        message = str(getattr(error, "error_message", None) or error)
    except Exception:
        message = ""
    return {"error": {"name": _cut(name), "message": _cut(message)}}


def _cut(text: Any) -> str:
    return str(text)[:_MAX_TEXT].encode("utf-8", "replace").decode("utf-8")
