/** State transitions are counted by the definition, since the emulator's history has none of a Parallel's or a Map's states. */
import { readFileSync } from 'node:fs';
import type { HistoryEvent } from '@aws-sdk/client-sfn';
import { type Machine, transitionsIn, transitionsOf, transitionsOfLoneRun } from '../../../bench/cost/transitions.ts';
import { predict } from '../../../bench/scale/explain.ts';
import { readMeasured } from '../../../bench/scale/measured.ts';
import { JUDGED_CAPTURE } from '../../../bench/scale/product.ts';
import { FRESH } from '../../../bench/scale/scenarios.ts';
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

test('the simulation of scale has the same', () => {
  const { calls, callsUnjudged } = readMeasured();
  const ofRuns = { runs: 9, files: 0, chunks: 5, captures: 0, claimed: 0, seconds: 0 };
  expect(transitionsOf(machine)).toEqual(ofRuns);
  expect(calls.stateTransition).toEqual(ofRuns);
  expect(callsUnjudged.stateTransition).toEqual(ofRuns);
});

test('the documents price a lone file by the transitions of its run, and a judged capture by the default model', () => {
  const cost = readFileSync('docs/cost.md', 'utf8');
  const rows = [...cost.matchAll(/^\| (1|20|500) \| (\d[\d.]*) \| (\d[\d.]*) \| .* <?[\d.]+ \|$/gm)].slice(0, 3);
  for (const [, captures, total, transitions] of rows) {
    const usd = (transitionsOfLoneRun(machine) * LIST_PRICES.stateTransition * 1e6) / Number(captures);
    expect(Math.abs(Number(transitions) / usd - 1)).toBeLessThan(0.01);
    // $0.00047 a run, and $5 for a million captures.
    expect(Math.abs(Number(total) / (470 / Number(captures) + 5) - 1)).toBeLessThan(0.1);
  }
  const totals = rows.map(([, , total]) => Number(total));
  expect(totals).toEqual([467, 31, 5.7]);
  expect(readFileSync('README.md', 'utf8').replaceAll('\n', ' ')).toContain('$467, $31 or $6 a million for lone files');
  expect(Math.round(JUDGED_CAPTURE.usd * 1e6)).toBe(17_675);
});

test('the documents say how many captures a managed MLflow takes where people choose it', () => {
  const each = predict(readMeasured().calls.mlflow, { runs: 0, files: 1, chunks: 1 / 250, captures: 1 });
  expect(Math.floor(FRESH.mlflowPerSecond / each)).toBe(22);
  for (const file of ['README.md', '.env.example', 'docs/limits.md', 'docs/scale.md']) {
    expect({
      file,
      said: /some 22 captures a second/.test(readFileSync(file, 'utf8').replaceAll(/\n(# )?/g, ' ')),
    }).toEqual({
      file,
      said: true,
    });
  }
});

test('the simulation counts an event for a new file, and none of the work bucket, whose notifications are off', () => {
  const { calls, callsUnjudged } = readMeasured();
  expect(JSON.stringify(templateOf().toJSON())).not.toContain('"EventBridgeEnabled":true');
  expect(calls.eventBridgeEvent).toEqual({ runs: 0, files: 1, chunks: 0, captures: 0, claimed: 0, seconds: 0 });
  // Those of a backfill came when its files were new.
  expect(callsUnjudged.eventBridgeEvent).toEqual({ runs: 0, files: 0, chunks: 0, captures: 0, claimed: 0, seconds: 0 });
});
