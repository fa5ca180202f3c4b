/** Compares the price table with MLflow's catalog, rate by rate, and with the prices that MLflow computes for calls. */
import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { resolveModel } from '../../src/judge/models/profile-id.ts';
import { priceCall } from '../../src/judge/pricing/prices.ts';
import { buildTable, readCatalog, TABLE_FILE } from '../../tools/refresh-prices.ts';

/** Minimum number of compared models, and the maximum difference. */
const MIN_MODELS = 30;
const TOLERANCE = 0.01;

const usage = { inputTokens: 12_345, outputTokens: 678, cacheReadInputTokens: 4_000, cacheWriteInputTokens: 1_500 };

/** MLflow includes cached tokens in the prompt tokens. Bedrock Converse does not. */
const COST_OF_CALLS = `
import json, sys
from mlflow.utils.providers import cost_per_token
usage = json.load(sys.stdin)
total = usage["inputTokens"] + usage["cacheReadInputTokens"] + usage["cacheWriteInputTokens"]
def cost(model):
    found = cost_per_token(model, total, usage["outputTokens"], "bedrock",
        cache_read_input_tokens=usage["cacheReadInputTokens"], cache_creation_input_tokens=usage["cacheWriteInputTokens"])
    return None if found is None else sum(found)
print(json.dumps({model: cost(model) for model in usage["models"]}))
`;

let python: string;
let table: ReturnType<typeof buildTable>;

beforeAll(async () => {
  ({ python } = await defaultPythonEnvironment());
  table = JSON.parse(readFileSync(packagePath(TABLE_FILE), 'utf8'));
});

test('has every rate of the catalog in the table', () => {
  expect(table).toEqual(buildTable(readCatalog(python)));
});

test('computes the same price of calls as MLflow, for models and profiles', () => {
  const ids = Object.entries(table.models).flatMap(([model, rows]) =>
    Object.keys(rows)
      // A region is not part of a Bedrock id. The test before compares it.
      .filter((place) => !/-\d$/.test(place))
      .map((place) => (place === '' ? model : `${place}.${model}`)),
  );
  const output = execFileSync(python, ['-c', COST_OF_CALLS], {
    input: JSON.stringify({ ...usage, models: ids }),
    encoding: 'utf8',
    // Otherwise MLflow downloads a newer catalog.
    env: { ...process.env, MLFLOW_MODEL_CATALOG_URI: '' },
  });
  const theirs = JSON.parse(output) as Record<string, number | null>;
  const compared = ids.filter((id) => typeof theirs[id] === 'number' && (theirs[id] as number) > 0);
  const off = compared.filter((id) => {
    const ours = priceCall(id, usage);
    return ours === null || Math.abs(ours - (theirs[id] as number)) > TOLERANCE * (theirs[id] as number);
  });
  expect(off).toEqual([]);
  expect(new Set(compared.map((id) => resolveModel(id)?.model)).size).toBeGreaterThanOrEqual(MIN_MODELS);
  console.info(
    `${compared.length} ids of ${new Set(compared.map((id) => resolveModel(id)?.model)).size} models compared`,
  );
});
