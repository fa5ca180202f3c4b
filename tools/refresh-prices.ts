/**
 * `npm run prices`: writes `src/judge/models/price-table.json`, which Biome then formats, from the model catalog of the MLflow that
 * `npm start` runs. A test fails if the two differ.
 */
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { defaultPythonEnvironment } from '../local/python/python-presets.ts';
import { packagePath } from '../src/core/process/package-folder.ts';

interface Catalog {
  version: string;
  files: { models: Record<string, { mode?: string; last_updated_at?: string; pricing?: Record<string, unknown> }> }[];
}
type Row = (number | null)[];

/** Prints the catalog's files in order of precedence. `bedrock_mantle` lists the ids of Bedrock's OpenAI-compatible endpoint. */
const READ_CATALOG = `
import importlib.resources, json, mlflow.version
folder = importlib.resources.files("mlflow.utils").joinpath("model_catalog")
files = [json.loads(folder.joinpath(name + ".json").read_text()) for name in ("bedrock", "bedrock_mantle")]
print(json.dumps({"version": mlflow.version.VERSION, "files": files}))
`;

/** Reads the catalog. @throws Error that names the remedy if this Python has no MLflow */
export function readCatalog(python: string): Catalog {
  const maxBuffer = 64 * 1024 * 1024;
  return JSON.parse(execFileSync(python, ['-c', READ_CATALOG], { encoding: 'utf8', maxBuffer })) as Catalog;
}

const PROFILE = /^(global|us-gov|us|eu|apac|au|jp|ca)\.(?=[a-z0-9-]+\.)/;
const REGION = /^[a-z]{2}(-[a-z]+)+-\d$/;

/** Splits a catalog key into model and geography; `undefined` if it is not an on-demand text model. */
function splitKey(key: string): { model: string; place: string } | undefined {
  const parts = key.replace(/^invoke\//, '').split('/');
  let model = parts.at(-1) as string;
  if (parts.length > 2 || (parts.length === 2 && !REGION.test(parts[0] as string))) return undefined;
  let place = parts.length === 2 ? (parts[0] as string) : '';
  const profile = PROFILE.exec(model)?.[1];
  if (profile !== undefined) {
    place = profile;
    model = model.slice(profile.length + 1);
  }
  if (model.startsWith('claude-')) model = `anthropic.${model}`;
  return { model, place };
}

const sortByKey = <T>(record: Record<string, T>): Record<string, T> =>
  Object.fromEntries(Object.entries(record).toSorted(([a], [b]) => (a < b ? -1 : 1)));

/** Builds the price table from an MLflow catalog. */
export function buildTable({ version, files }: Catalog) {
  const models: Record<string, Record<string, Row>> = {};
  let date = '';
  for (const file of files) {
    for (const [key, entry] of Object.entries(file.models)) {
      const pricing = entry.pricing;
      const input = pricing?.input_per_million_tokens;
      const output = pricing?.output_per_million_tokens;
      if (entry.mode !== 'chat' && entry.mode !== 'responses') continue;
      if (typeof input !== 'number' || typeof output !== 'number') continue;
      const split = splitKey(key);
      if (split === undefined) continue;
      const rate = (name: string): number | null => (typeof pricing?.[name] === 'number' ? pricing[name] : null);
      const row: Row = [input, output, rate('cache_read_per_million_tokens'), rate('cache_write_per_million_tokens')];
      while (row.at(-1) === null) row.pop();
      models[split.model] ??= {};
      const rows = models[split.model] as Record<string, Row>;
      rows[split.place] ??= row;
      if ((entry.last_updated_at ?? '') > date) date = entry.last_updated_at as string;
    }
  }
  return {
    source: `Amazon Bedrock on-demand text prices as listed by MLflow ${version}`,
    date,
    unit: 'US dollars per million tokens; by model, then by "" (default), geography of the inference profile, or region',
    columns: ['input', 'output', 'cacheRead', 'cacheWrite'],
    models: sortByKey(Object.fromEntries(Object.entries(models).map(([model, rows]) => [model, sortByKey(rows)]))),
  };
}

export const TABLE_FILE = join('src', 'judge', 'models', 'price-table.json');

if (process.argv[1]?.endsWith('refresh-prices.ts')) {
  const table = buildTable(readCatalog((await defaultPythonEnvironment(console.log)).python));
  writeFileSync(packagePath(TABLE_FILE), JSON.stringify(table, null, 2));
  console.log(`${TABLE_FILE}: ${Object.keys(table.models).length} models, ${table.date}`);
}
