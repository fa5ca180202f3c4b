"""Scorers for mypy: the lines with a comment are wrong."""

from sagemaker_inference_monitor_scorers import Feedback, Text, Trace, scorer, serve


@scorer
def words(outputs: Text, trace: Trace) -> Feedback:
    content = outputs.messages[-1]["content"]
    return Feedback(len(outputs.split()), f"{content} {trace.duration_ms}", cost=1)  # usd


def length(reply: Text) -> int:
    return len(reply.words)  # no such field


handler = serve(words, length)
