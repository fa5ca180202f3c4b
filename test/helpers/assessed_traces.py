"""
Creates an experiment with traces assessed by a judge and by people, using MLflow's own client. Prints the (label, verdict)
pairs by scorer, as MLflow's own search returns them.

Arguments: tracking URI, experiment name, number of traces, seed.
"""
import json
import os
import random
import sys

# A trace must exist before it can be assessed.
os.environ["MLFLOW_ENABLE_ASYNC_TRACE_LOGGING"] = "false"
os.environ["MLFLOW_DISABLE_TELEMETRY"] = "true"

import mlflow
from mlflow.entities import AssessmentSource, AssessmentSourceType

uri, name, count, seed = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
mlflow.set_tracking_uri(uri)
experiment = mlflow.set_experiment(name)
rng = random.Random(seed)
VALUES = {
    "safety": ["yes", "no"],
    "coherence": ["coherent", "somewhat coherent", "incoherent"],
    "own_guideline": [True, False],
}
judge = AssessmentSource(source_type=AssessmentSourceType.LLM_JUDGE, source_id="bedrock:/test-judge")


def person(number):
    return AssessmentSource(source_type=AssessmentSourceType.HUMAN, source_id=f"person-{number}@example.com")


expected = {scorer: [] for scorer in VALUES}
for index in range(count):
    with mlflow.start_span(name="call") as span:
        span.set_inputs({"messages": [{"role": "user", "content": f"question {index}"}]})
        span.set_outputs({"choices": [{"message": {"role": "assistant", "content": f"answer {index}"}}]})
    trace_id = span.trace_id
    for scorer, values in VALUES.items():
        verdict = rng.choice(values)
        label = verdict if rng.random() < 0.7 else rng.choice(values)
        kind = index % 7
        if kind == 5:  # no person has assessed it
            mlflow.log_feedback(trace_id=trace_id, name=scorer, value=verdict, source=judge, rationale="by the judge")
            continue
        if kind == 6:  # the judge could not answer
            mlflow.log_feedback(trace_id=trace_id, name=scorer, value=label, source=person(1))
            continue
        assessment = mlflow.log_feedback(
            trace_id=trace_id, name=scorer, value=verdict, source=judge, rationale="by the judge",
            metadata={"mlflow.assessment.scorerVersion": "1"},
        )
        if kind == 4:  # a person overrides the judge, whose verdict is kept for the comparison
            mlflow.override_feedback(
                trace_id=trace_id, assessment_id=assessment.assessment_id, value=label, source=person(1),
                rationale=f"corrected {index}",
            )
        elif kind == 3:  # two against one
            other = next(value for value in values if value != label)
            for number, value in ((1, label), (2, other), (3, label)):
                mlflow.log_feedback(trace_id=trace_id, name=scorer, value=value, source=person(number))
        elif kind == 2:  # one against one: no label
            other = next(value for value in values if value != label)
            for number, value in ((1, label), (2, other)):
                mlflow.log_feedback(trace_id=trace_id, name=scorer, value=value, source=person(number))
            continue
        else:
            mlflow.log_feedback(
                trace_id=trace_id, name=scorer, value=label, source=person(index % 2 + 1), rationale=f"reason {index}"
            )
        expected[scorer].append([label, verdict])

found = mlflow.search_traces(experiment_ids=[experiment.experiment_id], max_results=10_000, return_type="list")
print(json.dumps({"traces": len(found), "pairs": expected}))
