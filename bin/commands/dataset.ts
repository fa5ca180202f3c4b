/** `inference-monitor dataset`: the captures of chosen traces as a file that replays, and as MLflow's evaluation dataset. */

import { maskedLine } from '../../src/captures/redact.ts';
import { createS3Client, Storage } from '../../src/core/aws/storage.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { many } from '../../src/core/text/figure-text.ts';
import type { Page } from '../../src/core/text/page.ts';
import { singleLine } from '../../src/core/text/terminal-text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { type DatasetRecord, fillDataset, resolveDataset } from '../../src/mlflow/evaluation-datasets.ts';
import { decodeOptions } from '../../src/monitoring/chunk/decode-lines.ts';
import { filterOption, mlflowOptions, type OpenedMlflow, openMlflow } from '../cli/mlflow.ts';
import { assertNew, withNewFile } from '../cli/new-file.ts';
import { command, type FlagsOf, numbers, option, options, parsed } from '../cli/options.ts';
import { type About, EXIT, notice, print, progress, type Report } from '../cli/output.ts';
import { assertHasTexts } from '../cli/settings.ts';
import { windowFrom } from '../cli/window.ts';
import {
  datasetRecord,
  readDatasetCaptures,
  type Selection,
  selectTraces,
  type VerdictCondition,
} from '../operate/dataset.ts';
import { tracesQuery } from './reading-traces.ts';

const [DEFAULT_LIMIT, MOST] = [1000, 10_000];

/** Adds a condition of `--scorer` to the earlier ones. Its form is `safety` or `safety=no`. */
export const condition = (text: string, before: VerdictCondition[] = []): VerdictCondition[] => {
  const at = text.indexOf('=');
  return [...before, at === -1 ? { scorer: text } : { scorer: text.slice(0, at), value: text.slice(at + 1) }];
};

const OPTIONS = options(
  option('-o, --out <file>', 'the new file to write', { required: true }),
  option('--scorer <conditions...>', 'traces that fail one of these, or have its value', parsed(condition, [])),
  option('--tag <name=value...>', 'traces with all of these tags'),
  filterOption(),
  ...windowFrom(),
  option('--limit <count>', 'at most this many of the newest', parsed(numbers.from(1, MOST), DEFAULT_LIMIT)),
  option('--raw', 'the lines as they were captured, also where captures are masked'),
  option('--name <name>', "also write MLflow's evaluation dataset of this name"),
  ...mlflowOptions(),
);
type DatasetFlags = FlagsOf<typeof OPTIONS>;

export type Output = About & Awaited<ReturnType<typeof makeDataset>>;

export default command('dataset', OPTIONS, async (flags) => {
  const opened = await openMlflow(flags);
  const report = await makeDataset(flags, opened);
  for (const { traceId, reason } of report.missing) notice(`${singleLine(traceId)}: ${singleLine(reason)}`);
  if (report.more) notice(`Only the newest ${flags.limit} were selected. For older ones, use --limit or --to.`);
  print(report, flags.json, datasetPage(report), opened.about);
  if (report.missing.length > 0) process.exitCode = EXIT.found;
});

/** @throws PermanentError `NothingSelected`, `FileExists`, `MlflowDatasetsMissing`, `UnknownName`, `InvalidTime` */
async function makeDataset(flags: DatasetFlags, opened: OpenedMlflow) {
  const { out, name } = flags;
  const { mlflow, experiment, settings } = opened;
  if (name !== undefined) assertHasTexts(settings, 'dataset --name');
  const selection = selectionOf(flags, opened);
  assertNew(out);
  // Before hours of reading, so that a server without datasets is named at once.
  if (name !== undefined) notice(`writes to: MLflow, ${mlflow.target.baseUrl.origin}`);
  const datasetId = name === undefined ? undefined : await resolveDataset(mlflow.rest, experiment.id, name);
  // One additional trace shows whether there are more.
  const found = await selectTraces(mlflow.rest, { ...selection, limit: flags.limit + 1 });
  const selected = found.slice(0, flags.limit);
  if (selected.length === 0) {
    const expected = 'conditions that a trace of the window meets; MLflow’s page shows what there is';
    throw new PermanentError('NothingSelected', 'No trace meets the conditions', { got: '0 traces', expected });
  }
  const filled = { inserted: 0, updated: 0 };
  const waiting: DatasetRecord[] = [];
  const fill = async (least: number): Promise<void> => {
    if (datasetId === undefined || waiting.length < least) return;
    const { inserted, updated } = await fillDataset(mlflow.rest, datasetId, waiting.splice(0));
    filled.inserted += inserted;
    filled.updated += updated;
  };
  const options = { experimentId: experiment.id, ...decodeOptions(settings) };
  const missing = await withNewFile(out, async (write) => {
    const without = await readDatasetCaptures(selected, {
      storage: new Storage(createS3Client()),
      experimentId: experiment.id,
      maxLineBytes: settings.MAX_LINE_BYTES,
      onFile: (done, total) => progress.show(`${done} of ${total} capture files read`),
      consume: async (raw, one) => {
        await write((flags.raw ? raw.bytes : maskedLine(raw.bytes, options)) ?? Buffer.of());
        const record = datasetId === undefined ? undefined : datasetRecord(raw, one, options);
        if (record !== undefined) waiting.push(record);
        await fill(RECORDS_PER_REQUEST);
      },
    });
    await fill(1);
    return without;
  });
  return {
    file: out,
    /** Lines in the file. */
    captures: selected.length - missing.length,
    /** Older traces meet the conditions, too, which `--limit` leaves out. */
    more: found.length > selected.length,
    /** Selected traces whose line is not in the dataset. */
    missing,
    /** MLflow's evaluation dataset, with `--name`. */
    dataset: datasetId === undefined ? undefined : { id: datasetId, name: name ?? '', ...filled },
  };
}

/** Records may have megabytes, and MLflow reads a request as a whole. */
const RECORDS_PER_REQUEST = 10;

function selectionOf(flags: DatasetFlags, opened: OpenedMlflow): Selection {
  const scorers = activeScorers(opened.settings);
  const asked = flags.scorer.map(({ scorer }) => scorer);
  checkNames('scorer', asked, scorers);
  const filter = [...(flags.tag ?? []).map(tagFilter), ...(flags.filter ? [flags.filter] : [])].join(' AND ');
  const query = tracesQuery(opened, flags, filter || undefined);
  return { ...query, scorers, verdicts: flags.scorer, limit: flags.limit };
}

/** MLflow's filter has no escape for a quote. @throws PermanentError `InvalidTag` */
export function tagFilter(text: string): string {
  const at = text.indexOf('=');
  const [name, value] = [text.slice(0, at), text.slice(at + 1)];
  if (at < 1 || /["'`]/.test(text)) {
    const facts = { got: text, expected: '<name>=<value> without quotes, such as status_code=503' };
    throw new PermanentError('InvalidTag', 'A tag cannot be read', facts);
  }
  return `tag.\`${name}\` = '${value}'`;
}

function datasetPage({ file, captures, missing, dataset: filled }: Report<Output>): Page {
  const lost = missing.length === 0 ? '' : `; ${many(missing.length, 'trace')} without a capture`;
  return [
    `${file}: ${many(captures, 'capture')}${lost}`,
    filled &&
      `evaluation dataset ${filled.name} (${filled.id}): ${filled.inserted} new records, ${filled.updated} with the inputs of another`,
  ];
}
