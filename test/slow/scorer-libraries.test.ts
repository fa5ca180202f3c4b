/** Scorers with metrics of other libraries on captures of the disk, and a file that hangs. */
import { writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { judgeFiles } from '../../bin/commands/judge-run.ts';
import { defaultPythonEnvironment, lockedEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

async function judged(code: string, python: string, limit = 3) {
  const scorerFile = join(temporaryFolder('scorers-'), 'mine.py');
  writeFileSync(scorerFile, code);
  const flags = { limit, budget: 0, scorerFile, python };
  const report = await judgeFiles(packagePath('examples', 'captures'), flags, new AbortController().signal, {});
  return report?.scorers.map(({ name, values, numbers, missing, usd }) => ({ name, values, numbers, missing, usd }));
}

const ADAPTERS = 'from sagemaker_inference_monitor_scorers import adapters\n';
const numbers = (name: string, more: object = {}) =>
  expect.objectContaining({ name, numbers: expect.anything(), missing: 0, ...more });

test('DeepEval: the example asks its model on Bedrock, whose cost is that of the verdicts', async () => {
  const { python } = await lockedEnvironment('scorers');
  const said = {
    truths: ['a'],
    claims: ['a', 'b'],
    verdicts: [{ verdict: 'yes' }, { verdict: 'no', reason: 'r' }],
    reason: 'half',
  };
  const answer = {
    output: { message: { role: 'assistant', content: [{ text: JSON.stringify(said) }] } },
    stopReason: 'end_turn',
    usage: { inputTokens: 1_000_000, outputTokens: 0, totalTokens: 1_000_000 },
    metrics: { latencyMs: 1 },
  };
  const server = createServer((request, response) => {
    request
      .resume()
      .on('end', () => response.setHeader('content-type', 'application/json').end(JSON.stringify(answer)));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const code = `
import os, sys
os.environ.update(AWS_ENDPOINT_URL_BEDROCK_RUNTIME="${url}", AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b")
sys.path.insert(0, "${packagePath('examples', 'scorers')}")
from faithfulness import faithfulness
from sagemaker_inference_monitor_scorers import scorer
from deepeval.telemetry import telemetry_opt_out
@scorer
def untold(reply) -> bool:
    return telemetry_opt_out() and not os.path.exists(".deepeval")
`;
  const [faithfulness, untold] = (await judged(code, python)) ?? [];
  server.close();
  expect(faithfulness).toEqual(numbers('faithfulness', { numbers: { mean: 0.5, min: 0.5, max: 0.5 } }));
  // Truths, claims, verdicts and the reason, of three captures, at 6 cents a million tokens.
  expect(faithfulness?.usd).toBeCloseTo(4 * 3 * 0.06);
  expect(untold).toMatchObject({ values: { true: 3 } });
});

test('Phoenix evals: scores and labels', async () => {
  const code = `${ADAPTERS}
from phoenix.evals import Score, create_evaluator
@create_evaluator(name="Words of reply", kind="code")
def words(output): return len(output.split())
@create_evaluator(name="fits", kind="code")
def fits(input, output, context): return Score(label="yes" if input in context else "no", explanation=output)
made = [adapters.from_phoenix(each) for each in (words, fits)]
first, second = made
`;
  const found = await judged(code, (await lockedEnvironment('scorers')).python);
  expect(found).toEqual([numbers('words_of_reply'), expect.objectContaining({ name: 'fits', values: { yes: 3 } })]);
});

test('scikit-learn and MLflow', async () => {
  const code = `${ADAPTERS}
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from mlflow.entities import Feedback
from mlflow.genai import scorer
model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["water it daily", "you idiot"], ["kind", "rude"])
tone = adapters.from_sklearn(model, "tone")
rudeness = adapters.from_sklearn(model, "rudeness", "rude")
@scorer
def with_reason(inputs, outputs, expectations): return Feedback(value=bool(inputs["prompt"] and outputs), rationale=str(expectations))
@scorer
def always_fails(outputs): raise ValueError(outputs)
reason, failing = adapters.from_mlflow(with_reason), adapters.from_mlflow(always_fails)
`;
  expect(await judged(code, (await defaultPythonEnvironment()).python)).toEqual([
    expect.objectContaining({ name: 'tone', missing: 0, numbers: undefined }),
    numbers('rudeness'),
    expect.objectContaining({ name: 'with_reason', values: { true: 3 } }),
    expect.objectContaining({ name: 'always_fails', missing: 3 }),
  ]);
});

test('RAGAS: metrics of its collections and of its decorators, and none without a true answer', async () => {
  const code = `${ADAPTERS}
from ragas.metrics import numeric_metric
from ragas.metrics.collections import ExactMatch
@numeric_metric(name="words", allowed_values=(0, 1000))
def words(response: str): return len(response.split())
first, second = adapters.from_ragas(words), adapters.from_ragas(ExactMatch())
`;
  const found = await judged(code, (await lockedEnvironment('ragas')).python);
  expect(found).toEqual([numbers('words'), expect.objectContaining({ name: 'exact_match', missing: 3 })]);
});

test('a record that hangs is an error after its time, and the others have verdicts', async () => {
  const code = `import time
from sagemaker_inference_monitor_scorers import scorer
@scorer
def mine(reply):
    if "bleach" in reply: time.sleep(600)
    return 1
`;
  const found = await judged(code, (await defaultPythonEnvironment()).python, 10);
  expect(found).toEqual([numbers('mine', { numbers: { mean: 1, min: 1, max: 1 }, missing: 1 })]);
});
