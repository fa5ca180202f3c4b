"""Whether a reply keeps to the facts of its prompt: DeepEval's metric, asked of a model on Bedrock."""

from sagemaker_inference_monitor_scorers import serve
from sagemaker_inference_monitor_scorers.adapters import from_deepeval

from deepeval.metrics import FaithfulnessMetric  # After the adapters, which turn its telemetry off.
from deepeval.models import AmazonBedrockModel

MODEL = AmazonBedrockModel(
    model="us.amazon.nova-lite-v1:0",
    region="us-east-1",
    # US dollars. DeepEval adds them up, and the budget counts them.
    cost_per_input_token=0.06e-6,
    cost_per_output_token=0.24e-6,
)

faithfulness = from_deepeval(FaithfulnessMetric(model=MODEL))
handler = serve(faithfulness)
