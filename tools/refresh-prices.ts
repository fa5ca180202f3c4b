/**
 * Compares `src/judge/pricing/price-table.json` with the model catalog of an installed MLflow, or updates it from there.
 *
 *     npm run prices -- --python .venvs/default-…/bin/python            compare; exit code 1 if a rate differs by more than 1%
 *     npm run prices -- --python .venvs/default-…/bin/python --write    update the table
 */
import { execFileSync, type StdioOptions } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { describeError } from '../src/core/errors/describe-error.ts';

interface Catalog {
  version: string;
  files: { models: Record<string, { mode?: string; last_updated_at?: string; pricing?: Record<string, unknown> }> }[];
}
type Row = (number | null)[];
export interface PriceTable {
  source: string;
  date: string;
  unit: string;
  columns: string[];
  models: Record<string, Record<string, Row>>;
}

/** Prints the catalog's files in order of precedence. `bedrock_mantle` lists the ids of Bedrock's OpenAI-compatible endpoint. */
const READ_CATALOG = `
import importlib.resources, json, mlflow.version
folder = importlib.resources.files("mlflow.utils").joinpath("model_catalog")
files = [json.loads(folder.joinpath(name + ".json").read_text()) for name in ("bedrock", "bedrock_mantle")]
print(json.dumps({"version": mlflow.version.VERSION, "files": files}))
`;

/** Reads the catalog. @throws Error that names the remedy if this Python has no MLflow */
export function readCatalog(python: string): Catalog {
  const stdio: StdioOptions = ['ignore', 'pipe', 'pipe'];
  try {
    const output = execFileSync(python, ['-c', READ_CATALOG], {
      encoding: 'utf8',
      maxBuffer: 64 * 1024 * 1024,
      stdio,
    });
    return JSON.parse(output) as Catalog;
  } catch (error) {
    const { stderr = '', message } = error as Error & { stderr?: string };
    throw new Error(
      `MLflow's catalog cannot be read; got: ${stderr.trim().split('\n').at(-1) || message} from ${python}; expected: --python with a Python that has a recent MLflow, such as .venvs/default-…/bin/python, which npm start makes`,
      { cause: error },
    );
  }
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
export function buildTable({ version, files }: Catalog): PriceTable {
  const models: PriceTable['models'] = {};
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

/** Returns a sentence for each rate of `reference` that is missing or different in `table`. */
export function compareTables(table: PriceTable, reference: PriceTable, tolerance = 0.01): string[] {
  const differences: string[] = [];
  for (const [model, rows] of Object.entries(reference.models)) {
    for (const [place, row] of Object.entries(rows)) {
      const ours = table.models[model]?.[place];
      const label = place === '' ? model : `${model} (${place})`;
      if (ours === undefined) {
        differences.push(`${label}: not in the table, the catalog has ${row.join(', ')}`);
        continue;
      }
      row.forEach((value, column) => {
        const got = ours[column] ?? null;
        const same = value === null ? got === null : got !== null && Math.abs(got - value) <= tolerance * value;
        if (!same) differences.push(`${label}: ${reference.columns[column]} is ${got}, the catalog has ${value}`);
      });
    }
  }
  return differences;
}

export const TABLE_FILE = join('src', 'judge', 'pricing', 'price-table.json');

/** Formats the table with one line per rate, to keep it readable and its changes visible. */
function formatTable({ models, ...head }: PriceTable): string {
  const lines = Object.entries(models).map(([model, rows]) => {
    const places = Object.entries(rows).map(([place, row]) => `      ${JSON.stringify(place)}: [${row.join(', ')}]`);
    return `    ${JSON.stringify(model)}: {\n${places.join(',\n')}\n    }`;
  });
  const fields = Object.entries(head).map(([name, value]) => {
    const text = Array.isArray(value) ? `[${value.map((v) => JSON.stringify(v)).join(', ')}]` : JSON.stringify(value);
    return `  ${JSON.stringify(name)}: ${text}`;
  });
  return `{\n${fields.join(',\n')},\n  "models": {\n${lines.join(',\n')}\n  }\n}\n`;
}

const HELP = `Usage: npm run prices -- [--python PYTHON] [--write]

Compares src/judge/pricing/price-table.json with the model catalog of an installed MLflow, rate by rate. The exit code is 1
if one differs by more than 1%.

  --python PYTHON   a Python with MLflow, such as .venvs/default-…/bin/python, which npm start makes (default: python3)
  --write           update the table`;

function main(): void {
  const { values } = parseArgs({
    options: {
      python: { type: 'string', default: 'python3' },
      write: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h', default: false },
    },
  });
  if (values.help) {
    console.log(HELP);
    return;
  }
  const reference = buildTable(readCatalog(values.python));
  const rows = Object.values(reference.models).reduce((total, row) => total + Object.keys(row).length, 0);
  if (values.write) {
    writeFileSync(TABLE_FILE, formatTable(reference));
    console.log(
      `written: ${TABLE_FILE}: ${Object.keys(reference.models).length} models, ${rows} rates, ${reference.date}`,
    );
    return;
  }
  const differences = compareTables(JSON.parse(readFileSync(TABLE_FILE, 'utf8')) as PriceTable, reference);
  for (const line of differences) console.log(line);
  console.log(`compared: ${rows} rates of ${Object.keys(reference.models).length} models with ${reference.source}`);
  console.log(`different: ${differences.length}`);
  if (differences.length > 0) process.exitCode = 1;
}

if (process.argv[1]?.endsWith('refresh-prices.ts')) {
  try {
    main();
  } catch (error) {
    console.error(describeError(error));
    // 1 means that rates differ.
    process.exitCode = 2;
  }
}
