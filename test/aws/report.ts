/** The canary's table, and its report without account ids, names of buckets, addresses and ARNs. */
import { writeFileSync } from 'node:fs';
import { ASSERTION_IDS, assertionOf } from './assertions.ts';
import { type CanaryFinding, type CanaryState, reportPath } from './state.ts';

const NOT_REACHED: CanaryFinding = { outcome: 'skipped', detail: 'not reached' };

const rowsOf = ({ findings }: CanaryState) =>
  ASSERTION_IDS.map((id) => ({ ...assertionOf(id), ...(findings[id] ?? NOT_REACHED) }));

/** @returns the number of assertions by outcome */
export function countsOf(state: CanaryState): Record<CanaryFinding['outcome'], number> {
  const counts = { seen: 0, failed: 0, skipped: 0 };
  for (const { outcome } of rowsOf(state)) counts[outcome] += 1;
  return counts;
}

/** Returns the table for the terminal: a line for each assertion. */
export const tableLines = (state: CanaryState): string[] =>
  rowsOf(state).map(({ outcome, text, detail, file }) => `${outcome.padEnd(8)} ${text}\n         ${detail} (${file})`);

/** Replaces what names the account or its resources. */
export function redacted(text: string, { facts, settings, endpoint, url, prefix }: CanaryState): string {
  const names: [string | undefined, string][] = [
    [facts.captureBucket, '<capture bucket>'],
    [facts.workBucket, '<work bucket>'],
    [settings.MLFLOW_ARTIFACT_BUCKET, '<artifact bucket>'],
    [settings.MLFLOW_TRACKING_URI, '<MLflow>'],
    [settings.SAGEMAKER_MLFLOW_CUSTOM_ENDPOINT, '<MLflow>'],
    [facts.endpointUrl, '<endpoint>'],
    [url, '<endpoint>'],
    [endpoint, '<endpoint>'],
    [prefix, '<prefix>'],
  ];
  // The longest first, since a name may contain another one.
  const known = names.flatMap(([name, as]) => (name ? [[name, as] as const] : []));
  known.sort(([a], [b]) => b.length - a.length);
  let result = text.replace(/\barn:[\w-]+:([\w-]+):[^\s,;"')|]*/g, '<arn of $1>');
  for (const [name, as] of known) result = result.replaceAll(name, as);
  return result.replace(/\b\d{12}\b/g, '<account>').replace(/https?:\/\/[^\s,;"')|]+/g, '<address>');
}

/** Writes the report. @returns its path */
export function writeCanaryReport(state: CanaryState): string {
  const { seen, failed, skipped } = countsOf(state);
  const cell = (text: string) => redacted(text, state).replaceAll('|', '\\|').replaceAll('\n', ' ');
  const lines = [
    '# Canary',
    '',
    `${state.region}, begun ${state.startedAt}, judge ${cell(state.settings.BEDROCK_MODEL_ID ?? 'by default')}, ${process.env.AWS_ENDPOINT_URL ? 'in an emulator' : 'on AWS'}.`,
    `${seen} assertions seen, ${failed} failed, ${skipped} skipped. The judge has cost $${Number(state.facts.spentUsd || 0).toFixed(4)}.`,
    '',
    '| | Assertion | What was seen | Relied on by |',
    '| --- | --- | --- | --- |',
    ...rowsOf(state).map(
      ({ outcome, text, detail, file }) => `| ${outcome} | ${text} | ${cell(detail)} | \`${file}\` |`,
    ),
    '',
  ];
  const path = reportPath(state.prefix);
  writeFileSync(path, lines.join('\n'));
  return path;
}
