"""Scorers of SageMaker Inference Monitor in Python.

    @scorer
    def custom_metric(outputs) -> float:
        return len(outputs.split())

    handler = serve(custom_metric)
"""

from ._scorer import Feedback, Scorer, scorer, serve
from ._trace import Text, Trace

__all__ = ["Feedback", "Scorer", "Text", "Trace", "scorer", "serve"]
