"""Metrics of other libraries as scorers. Each library is imported when a scorer of it is made.

Import this module before the library: it turns the telemetry of DeepEval, RAGAS and MLflow off, and has DeepEval keep its
folders in /tmp, since a Lambda function can write nowhere else. Variables that are set stay as they are.
"""

from __future__ import annotations

import inspect
import os
import re
import tempfile
from typing import Any, Callable, List, Optional

from ._scorer import Feedback, Scorer
from ._trace import Text, Trace

for _name, _value in {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "1",
    "DEEPEVAL_CACHE_FOLDER": os.path.join(tempfile.gettempdir(), ".deepeval"),
    "DEEPEVAL_HOME": os.path.join(tempfile.gettempdir(), ".deepeval"),
    "RAGAS_DO_NOT_TRACK": "true",
    "MLFLOW_DISABLE_TELEMETRY": "true",
}.items():
    os.environ.setdefault(_name, _value)

#: Returns the texts that a reply is to be faithful to.
Contexts = Callable[[Trace], List[str]]


def prompt(trace: Trace) -> List[str]:
    """The context by default: the words of the prompt, which is where a capture has it."""
    return [str(trace.request or "")]


def _named(name: str) -> str:
    return re.sub(r"\W+", "_", name).strip("_").lower()


def from_deepeval(metric: Any, name: Optional[str] = None, contexts: Contexts = prompt) -> Scorer:
    """A metric of DeepEval for one exchange, such as AnswerRelevancyMetric: its score, reason and cost."""
    from deepeval.test_case import LLMTestCase

    def score(request: Text, reply: Text, trace: Trace) -> Feedback:
        texts = contexts(trace)
        metric.measure(
            LLMTestCase(
                input=str(request or ""),
                actual_output=str(reply or ""),
                expected_output=trace.expectation,
                context=texts,
                retrieval_context=texts,
            )
        )
        return Feedback(metric.score, metric.reason, metric.evaluation_cost)

    return Scorer(score, name or _named(metric.__name__))


def from_phoenix(evaluator: Any, name: Optional[str] = None, contexts: Contexts = prompt) -> Scorer:
    """An evaluator of Phoenix evals: the score, or where it has none the label, with the explanation."""

    def score(request: Text, reply: Text, trace: Trace) -> Feedback:
        known = {} if trace.expectation is None else {"expected": trace.expectation, "reference": trace.expectation}
        sides = {"input": str(request or ""), "output": str(reply or ""), "context": "\n".join(contexts(trace))}
        found = evaluator.evaluate({**sides, **known})
        if len(found) != 1:
            raise ValueError(f"scores; got: {len(found)}; expected: 1")
        return Feedback(found[0].label if found[0].score is None else found[0].score, found[0].explanation)

    return Scorer(score, name or _named(evaluator.name))


def from_sklearn(model: Any, name: str, label: Any = None) -> Scorer:
    """A fitted classifier or pipeline over the words of the reply: the class, or the probability of the class `label`."""

    def score(reply: Text) -> Any:
        if label is None:
            return model.predict([str(reply or "")])
        return model.predict_proba([str(reply or "")])[0][list(model.classes_).index(label)]

    return Scorer(score, name)


def from_mlflow(metric: Any, name: Optional[str] = None) -> Scorer:
    """A scorer of MLflow: a function with its decorator, a judge of `make_judge`, or a built-in one that needs no trace."""

    def score(inputs: Any, outputs: Text, expectations: Any) -> Any:
        asked = {**inputs, "prompt": str(inputs["prompt"] or "")}
        return metric.run(inputs=asked, outputs=str(outputs or ""), expectations=expectations)

    return Scorer(score, name or _named(metric.name))


def from_ragas(metric: Any, name: Optional[str] = None, contexts: Contexts = prompt) -> Scorer:
    """A metric of RAGAS with `ascore`, of `ragas.metrics.collections` or of its decorators."""
    asked = inspect.signature(getattr(metric, "_func", None) or metric.ascore).parameters

    async def score(request: Text, reply: Text, trace: Trace) -> Feedback:
        known = {} if trace.expectation is None else {"reference": trace.expectation}
        fields = {"user_input": str(request or ""), "response": str(reply or ""), "retrieved_contexts": contexts(trace), **known}
        found = await metric.ascore(**{key: value for key, value in fields.items() if key in asked})
        return Feedback(found.value, found.reason, error=found.reason if found.value is None else None)

    return Scorer(score, name or _named(metric.name))
