/** What `bench -- cost` counts, and the documents that its figures are in. */
import { readFileSync } from 'node:fs';
import type { HistoryEvent } from '@aws-sdk/client-sfn';
import { readCounts } from '../../../bench/cost/counts.ts';
import { demandsOf, scaleTables, withTables } from '../../../bench/cost/scale-page.ts';
import { type Machine, transitionsIn, transitionsOfLoneRun } from '../../../bench/cost/transitions.ts';
import { LIST_PRICES } from '../../../bench/support/list-prices.ts';
import { definitionOf, templateOf } from '../../helpers/synth.ts';

const machine = definitionOf(templateOf()) as unknown as Machine;

const resourceOf = (step: string): string =>
  Object.values(machine.States).find(
    ({ Type, Resource = '' }) => Type === 'Task' && Resource.endsWith(`:${step}Function`),
  )?.Resource ?? `arn:aws:lambda:eu-west-1:123456789012:function:${step}Function`;
const scheduled = (step: string): HistoryEvent =>
  ({ type: 'TaskScheduled', taskScheduledEventDetails: { resource: resourceOf(step) } }) as HistoryEvent;
const entered = (name: string): HistoryEvent => {
  const { Type } = machine.States[name] ?? { Type: 'Pass' };
  return { type: `${Type}StateEntered`, stateEnteredEventDetails: { name } } as HistoryEvent;
};

const before = ['Start', 'PlanCaptures', 'AnythingPlanned'].map(entered);
const end = ['SummarizeRun', 'NothingMissing', 'RunSucceeded'].map(entered);
const after = [entered('MoreParts'), ...end];
const planned = [scheduled('PlanCaptures'), scheduled('SummarizeRun')];

test.each(['EvaluateTraces', 'LogTraces'])('a run of one chunk has nine: %s', (step) => {
  const chunk = [`${step}OnlyChunk`, `${step}OnlyChunkDone`].map(entered);
  const history = [...before, ...chunk, scheduled(step), ...end, ...planned];
  expect(transitionsIn(history, machine)).toBe(9);
  expect(transitionsOfLoneRun(machine)).toBe(9);
  // A retry is one more.
  expect(transitionsIn([...history, scheduled(step)], machine)).toBe(10);
});

test('a run of several chunks has nine, and each child of its Map five', () => {
  expect(transitionsIn([...before, entered('ForEachChunk'), ...after, ...planned], machine)).toBe(9);
  expect(transitionsIn([scheduled('EvaluateTraces')], machine)).toBe(5);
  expect(transitionsIn([scheduled('LogTraces')], machine)).toBe(5);
});

test('a run that plans its next part at the same time has the states of both branches', () => {
  const parts = [...before, entered('RunAndPlan'), entered('NextPartPlanned'), entered('ForEachChunk'), ...after];
  expect(transitionsIn([...parts, ...planned, scheduled('PlanCaptures')], machine)).toBe(1 + 3 + 1 + 2 + 1 + 1 + 4);
});

test('the documents price a lone file by the transitions of its run', () => {
  const cost = readFileSync('docs/cost.md', 'utf8');
  const rows = [...cost.matchAll(/^\| (1|20|500) \| (\d[\d.]*) \| (\d[\d.]*) \| .* <?[\d.]+ \|$/gm)].slice(0, 3);
  for (const [, captures, total, transitions] of rows) {
    const usd = (transitionsOfLoneRun(machine) * LIST_PRICES.stateTransition * 1e6) / Number(captures);
    expect(Math.abs(Number(transitions) / usd - 1)).toBeLessThan(0.01);
    // $0.00048 a run, and $8 for a million captures.
    expect(Math.abs(Number(total) / (476 / Number(captures) + 8) - 1)).toBeLessThan(0.1);
  }
  const totals = rows.map(([, , total]) => Number(total));
  expect(totals).toEqual([484, 34, 8.7]);
  expect(readFileSync('README.md', 'utf8').replaceAll('\n', ' ')).toContain('$484, $34 or $9 a million for lone files');
});

test('docs/scale.md has the tables of the bench, and says how many captures a managed MLflow takes, as the README does', () => {
  const counts = readCounts();
  const page = readFileSync('docs/scale.md', 'utf8');
  const tables = scaleTables(counts);
  expect(withTables(page, tables)).toBe(page);
  const [, writes = ''] = /([\d,]+) \|$/.exec(tables.quotas) ?? [];
  expect(page).toContain(`WriteUnitsPerSecond=${writes.replace(',', '')}\n`);
  expect(page).toContain(`${counts.at.slice(0, 10)} (MLflow ${counts.mlflow}, ${counts.machine})`);
  const traced = demandsOf(counts).find(({ name }) => name === 'MLflow requests')?.captures ?? 0;
  for (const text of [page, readFileSync('README.md', 'utf8')]) {
    expect(text.replaceAll('\n', ' ')).toContain(`some ${Math.floor(traced)} captures a second`);
  }
});

test('a new file is one event, and the work bucket sends none', () => {
  expect(JSON.stringify(templateOf().toJSON())).not.toContain('"EventBridgeEnabled":true');
  for (const { files, units } of readCounts().counted) expect(units.eventBridgeEvent).toBe(files);
});
