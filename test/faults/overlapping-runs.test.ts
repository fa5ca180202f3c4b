/**
 * Runs over the same captures at the same time, against real servers: each verdict is of one run, one is in force for each scorer, and
 * the counts of all runs together are what MLflow has. And a second stack, which does not see the locks of the first.
 */
import type { ChunkRequest } from '../../src/core/contract/payloads.ts';
import type { StoredTrace } from '../../src/mlflow/types.ts';
import { addTree } from '../../src/quality/count-tree.ts';
import { cellsOf, sumOfCells } from '../../src/quality/counts-store.ts';
import { chatLine } from '../helpers/deployed-captures.ts';
import { expectEquations, TIME } from '../helpers/fault-expectations.ts';
import { type FaultCase, FaultPipeline, type RunOutcome, WORK } from '../helpers/fault-pipeline.ts';
import { countsOfRuns } from '../helpers/ledger-rows.ts';

const CAPTURES = 20;
let pipeline: FaultPipeline;
beforeAll(async () => {
  pipeline = await FaultPipeline.start();
});
afterAll(() => pipeline?.stop());

async function caseOf(name: string, variables: Record<string, string> = {}): Promise<FaultCase> {
  const one = pipeline.case(name, {}, variables);
  await one.put(Array.from({ length: CAPTURES }, (_, n) => chatLine(`${name}-${n}`, TIME)));
  return one;
}

async function tracesOf(one: FaultCase): Promise<StoredTrace[]> {
  const { id } = await one.store.resolveExperiment(one.endpoint);
  return [...(await one.store.getTraces(id, await one.traceIds())).values()];
}

/** Verdicts in force, by trace and scorer; each must be there once. */
const inForce = (traces: readonly StoredTrace[]): string[] =>
  traces.flatMap(({ traceId, assessments }) =>
    assessments.filter(({ valid }) => valid).map(({ name }) => `${traceId} ${name}`),
  );

/** Returns what the runs count together: captures, and verdicts of a scorer by value. */
async function countsOf(outcomes: readonly RunOutcome[], scorer: string) {
  const runs = outcomes.map(({ run }) => run);
  const total = await countsOfRuns(pipeline.storage, WORK, runs);
  const { captures, scorers = {} } = sumOfCells(cellsOf(total));
  const values: Record<string, number> = {};
  for (const sample of Object.values(scorers[scorer] ?? {})) addTree(values, sample.values ?? {});
  return { captures, verdicts: Object.values(values).reduce((sum, count) => sum + count, 0) };
}

function expectSucceeded(outcomes: readonly RunOutcome[]): void {
  for (const outcome of outcomes) {
    expect([outcome.summary.status, outcome.summary.error]).toEqual(['succeeded', undefined]);
    expectEquations(outcome);
  }
}

test('two re-evaluations at once leave one verdict of each scorer in force, and doubles are settled by the next', async () => {
  const one = await caseOf('again');
  const before = await one.run();
  const reevaluate = (budgetUsd: number) => one.run(one.event(one.key(), { reevaluate: true, budgetUsd }));
  const both = await Promise.all([reevaluate(1), reevaluate(2)]);
  expectSucceeded([before, ...both]);
  const verdicts = before.summary.verdicts.newVerdicts;
  const found = inForce(await tracesOf(one));
  expect([found.length, new Set(found).size]).toEqual([verdicts, verdicts]);
  expect(await countsOf([before, ...both], 'safety')).toMatchObject({ captures: CAPTURES, verdicts: CAPTURES });

  // As runs without a common lock have left them: two that override the same verdict.
  const [trace] = await tracesOf(one);
  const latest = trace?.assessments.find(({ name, valid }) => name === 'safety' && valid);
  for (const assessmentId of ['a-double-1', 'a-double-2']) {
    const assessment = {
      assessment_id: assessmentId,
      assessment_name: 'safety',
      source: { source_type: 'LLM_JUDGE', source_id: 'double' },
      create_time: TIME,
      last_update_time: TIME,
      feedback: { value: 'no' },
      overrides: latest?.assessmentId,
      valid: true,
    };
    const url = `${pipeline.server.url}/api/3.0/mlflow/traces/${trace?.traceId}/assessments`;
    const headers = { 'content-type': 'application/json' };
    const reply = await fetch(url, { method: 'POST', headers, body: JSON.stringify({ assessment }) });
    expect(reply.status).toBe(200);
  }
  expect(inForce(await tracesOf(one))).toHaveLength(verdicts + 1);
  expectSucceeded([await reevaluate(3)]);
  const settled = inForce(await tracesOf(one));
  expect([settled.length, new Set(settled).size]).toEqual([verdicts, verdicts]);
});

test('a repeated attempt, during the first one or after it, counts what the run has written', async () => {
  const one = await caseOf('repeated');
  let request: ChunkRequest | undefined;
  let beside: Promise<unknown> | undefined;
  const outcome = await one.run(one.event(), {
    live: async (first) => {
      request = first;
      beside = one.evaluate({ ...first, attempt: 1 });
      return { deps: { storage: pipeline.storage, store: one.store }, killed: new Promise(() => undefined) };
    },
    processed: async () => {
      await beside;
      await one.evaluate({ ...(request as ChunkRequest), attempt: 2 });
    },
  });
  expectSucceeded([outcome]);
  const traces = await tracesOf(one);
  expect(outcome.summary.lines).toMatchObject({ written: CAPTURES, alreadyThere: 0 });
  expect(outcome.summary.verdicts).toMatchObject({ newVerdicts: inForce(traces).length, alreadyThere: 0 });
  expect(await countsOf([outcome], 'safety')).toMatchObject({ captures: CAPTURES, verdicts: CAPTURES });
});

test('a second stack is refused by name where the first writes the traces of the endpoint, unless a setting allows it', async () => {
  const one = await caseOf('shared');
  expectSucceeded([await one.run()]);
  const other = pipeline.case('shared', {}, { STACK_PREFIX: 'staging' });
  const refused = await other.run();
  expect(refused.summary.error).toMatchObject({
    name: 'MlflowExperimentOfOtherStack',
    message: expect.stringMatching(/stack faults .* for stack staging; or MLFLOW_EXPERIMENT_SHARED=true/),
  });
  const shared = { STACK_PREFIX: 'staging', MLFLOW_EXPERIMENT_SHARED: 'true' };
  expectSucceeded([await pipeline.case('shared', {}, shared).run()]);
});

test('an experiment that a person renames stays the stack’s, and another name says that captures are paid again', async () => {
  const one = await caseOf('renamed');
  expectSucceeded([await one.run()]);
  const post = async (path: string, body: object): Promise<void> => {
    const url = `${pipeline.server.url}/api/2.0/mlflow/experiments/${path}`;
    const headers = { 'content-type': 'application/json' };
    expect((await fetch(url, { method: 'POST', headers, body: JSON.stringify(body) })).status).toBe(200);
  };
  const { id } = await one.store.resolveExperiment(one.endpoint);
  await post('update', { experiment_id: id, new_name: 'Ann’s traces' });
  const [renamed, owner] = [await one.run(), { endpoint: one.endpoint, stack: 'faults', isShared: false }];
  expectSucceeded([renamed]);
  expect(renamed.summary.lines).toMatchObject({ written: 0, alreadyThere: CAPTURES });
  expect(renamed.summary.warnings).toContainEqual(expect.stringMatching(/has the name "Ann’s traces" in MLflow now/));
  // Also if the old name is in use again.
  await post('create', { name: one.endpoint });
  expect(await one.store.resolveExperiment(one.endpoint, owner)).toMatchObject({ id, name: 'Ann’s traces' });
  const another = await one.store.resolveExperiment('another', owner);
  expect(another.notice).toMatch(/to the experiment "Ann’s traces" .* is traced, judged, paid and counted again/);
});
