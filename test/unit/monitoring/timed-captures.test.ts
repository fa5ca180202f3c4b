/** Captures with the times that their caller measured: what they are asked, how a run accounts for it, and what is said of them. */

import { ratesPage, ratesReport } from '../../../bin/commands/rates.ts';
import { readWorst } from '../../../bin/operate/worst.ts';
import type { EvaluateReceipt, PlanReceipt } from '../../../src/core/contract/receipts.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { healthOf } from '../../../src/health/findings.ts';
import { codeScorers } from '../../../src/judge/scorers/code-scorers.ts';
import { askedOf, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import { chunkState } from '../../../src/monitoring/receipts.ts';
import { SummaryBuilder } from '../../../src/monitoring/summary.ts';
import { readObjectives } from '../../../src/quality/objectives.ts';
import { ratesCsv } from '../../../src/quality/rates-text.ts';
import { MemoryStorage } from '../../doubles/memory-storage.ts';
import { ChunkRig, HOUR, LLM } from '../../helpers/chunk-rig.ts';
import { writeCounts } from '../../helpers/day-sums.ts';
import { chatLine } from '../../helpers/deployed-captures.ts';
import { ledgerRows } from '../../helpers/ledger-rows.ts';
import { testEnvironment } from '../../helpers/test-environment.ts';
import { timedLine } from '../../helpers/timed-line.ts';

const scorers = [...LLM, ...codeScorers];
const every = askedOf(scorers).length;
const stream = { streamed: true, ended: 'whole', status: 200, firstByteMs: 1 };
const failure = (kind: string, more: object = {}) => ({
  ...{ streamed: true, calls: 'streams', ended: 'failed', endMs: 30, error: { kind, class: 'Some' }, ...more },
});

/** @param client of the line. A call that failed has no reply */
function timed(name: string, client: { ended: string }): string {
  const line = JSON.parse(chatLine(name));
  if (client.ended === 'failed') delete line.captureData.endpointOutput;
  return JSON.stringify(timedLine(line, client));
}

/** 20 streams: the first token after 100, 200, … 2,000 ms, and then 12 tokens in half a second. */
const FIRST_MS = Array.from({ length: 20 }, (_, n) => 100 * (n + 1));
const streams = FIRST_MS.map((ms, n) => timed(`s${n}`, { ...stream, firstMs: ms, endMs: ms + 500 } as never));
const FAILED = [
  failure('throttled'),
  failure('timeout'),
  failure('no-connection'),
  failure('throttled', { streamed: false }),
  failure('timeout', { streamed: false, calls: 'all' }),
  failure('no-connection', { streamed: false, calls: 'all' }),
  failure('aborted'),
].map((client, n) => timed(`f${n}`, client));
const broken = timed('b', {
  ...{ ...stream, ended: 'broke', error: { kind: 'stream', class: 'ModelStreamError' } },
  ...{ firstMs: 40, endMs: 60 },
} as never);
const PLAIN_LINES = [chatLine('p0'), chatLine('p1')];

async function evaluated(lines: string[], rig = new ChunkRig(), run = 'one', settings = {}) {
  const environment = testEnvironment(settings);
  await rig.evaluate(rig.request(run, {}, 0, lines), { scorers, environment });
  const receipts = [...rig.storage.objects].filter(([key]) => key.includes(`/receipts/`) && key.includes(run));
  const receipt = JSON.parse(String(receipts.at(-1)?.[1])) as EvaluateReceipt;
  return { rig, receipt, summary: summaryOf(lines, receipt) };
}

function summaryOf(lines: string[], receipt: EvaluateReceipt) {
  const rig = new ChunkRig();
  const { options, chunk } = rig.request(receipt.run, {}, 0, lines);
  const summary = new SummaryBuilder({ name: receipt.run, startTime: HOUR });
  const plan = { part: 0, outcome: 'planned', objects: 1, chunks: 1, lines: lines.length, bytes: 1, more: false };
  summary.addPlan({ ...plan, scorers: every, options, input: {} } as PlanReceipt);
  summary.addChunk(chunk, chunkState([receipt]));
  return summary.build();
}

test('rows have the times of a call, the sizes of its payloads, and the draw', async () => {
  const { rig } = await evaluated([streams[0] ?? '', PLAIN_LINES[0] ?? '']);
  const { captures } = await ledgerRows(rig.storage.storage, 'work');
  const request = { requestBytes: 181, requestChars: 181 };
  expect(captures.toSorted((a, b) => (a.start ?? 0) - (b.start ?? 0))).toEqual([
    expect.objectContaining({
      latencyMs: 600,
      firstTokenMs: 100,
      sample: '1',
      ...request,
      replyBytes: 390,
      replyChars: 390,
    }),
    expect.objectContaining({
      latencyMs: undefined,
      firstTokenMs: undefined,
      sample: '1',
      ...request,
      replyBytes: 284,
      replyChars: 284,
    }),
  ]);
});

test('the second equation counts for each capture the scorers that it has', async () => {
  const lines = [...PLAIN_LINES, ...streams, ...FAILED, broken, PLAIN_LINES[0] ?? ''];
  const { rig, receipt, summary } = await evaluated(lines);
  expect(receipt).toMatchObject({ scorers: every, beyond: 3 * streams.length + 1 });
  expect(summary).toMatchObject({ status: 'succeeded', equations: { lines: true, verdicts: true } });
  expect(summary.verdicts.expected).toBe(every * lines.length + 3 * streams.length + 1);
  expect(receipt.reasons).not.toHaveProperty('notMeasured');
  // A verdict that got lost is missed.
  const { counts } = receipt;
  const lost = { ...receipt, counts: { ...counts, newVerdicts: counts.newVerdicts - 1 } };
  expect(summaryOf(lines, lost)).toMatchObject({ status: 'failed', verdicts: { lost: 1 } });
  const again = await evaluated(lines, rig, 'two');
  expect(again.receipt).toMatchObject({ beyond: 3 * streams.length + 1, counts: { newVerdicts: 0 } });
  expect(again.summary.equations.verdicts).toBe(true);
});

test('captures without times have the receipt, the counts and the traces that they had', async () => {
  const known = await evaluated(PLAIN_LINES);
  expect(known.receipt).not.toHaveProperty('beyond');
  const rig = new ChunkRig();
  const before = askedOf(scorers);
  const cell = await rig.evaluate(rig.request('one', {}, 0, PLAIN_LINES), { scorers: before });
  expect(known.rig.cell).toEqual(cell);
  const written = (of: ChunkRig) =>
    [...of.store.assessments].map(([id, own]) => [id, own.map(({ name, value, metadata }) => [name, value, metadata])]);
  expect(written(known.rig)).toEqual(written(rig));
});

test('calls without a reply are errors only where the caller writes the successes of their kind, and are never judged', async () => {
  const { rig, receipt } = await evaluated([...streams, ...FAILED, broken]);
  expect(rig.cell).toMatchObject({
    captures: 20 + 3 + 1,
    errorReplies: 3 + 1,
    errorKinds: { throttled: 1, timeout: 2, stream: 1 },
    failedCalls: { throttled: 1, 'no-connection': 2, aborted: 1 },
    byClient: { streams: 23, calls: 1 },
  });
  expect(receipt.reasons.errorReply).toBeGreaterThanOrEqual(FAILED.length * LLM.length);
  // What stands beside the rates is in none of them, not even by what its request has.
  const asked = Object.values(rig.cell.scorers?.pii_detected?.all?.values ?? {}).reduce((a, b) => a + b, 0);
  expect(asked).toBe(24);
  expect(rig.cell.scorers?.[LLM[0]?.name ?? '']).toMatchObject({ 1: { captures: 21, values: { yes: 21 } } });
  const { judgeUsd: _, ...totals } = rig.cell;
  await rig.evaluate(rig.request('two', { reevaluate: true }, 0, [...streams, ...FAILED, broken]), { scorers });
  expect(rig.cell).toMatchObject(totals);
});

const objective = '{"scorer":"time_to_first_token_ms","valueUnder":800,"atLeast":0.95}';

test('rates, status and objectives have the times, as arithmetic has them', async () => {
  const settings = { QUALITY_OBJECTIVES: `[${objective}]` };
  const { rig } = await evaluated([...streams, ...FAILED], new ChunkRig(), 'one', settings);
  const memory = new MemoryStorage();
  await writeCounts(memory.work, { [HOUR]: { Blue: rig.cell } });
  const active = scorersFor();
  const window = { from: '2026-11-20', to: '2026-11-21' };
  const query = { active, settings: testEnvironment(settings), nowMs: Date.parse('2026-11-22') };
  const made = await ratesReport(memory.work, window, query);
  const rate = (name: string) => made.groups[0]?.rates.find(({ scorer }) => scorer === name);
  const near = (value: number) => ({ asymmetricMatch: (got: number) => Math.abs(got / value - 1) <= 0.0200001 });
  // Of 20 numbers, 50% do not exceed the tenth, 95% the nineteenth, and 99% the last.
  expect(rate('time_to_first_token_ms')).toMatchObject({
    ...{ n: 20, method: 'computed', judge: { value: 1050 } },
    quantiles: { p50: near(1000), p95: near(1900), p99: near(2000) },
  });
  expect(rate('latency_ms')).toMatchObject({ n: 20, judge: { value: 1550 }, quantiles: { p50: near(1500) } });
  expect(rate('output_tokens_per_second')).toMatchObject({ n: 20, judge: { value: 24 }, quantiles: { p99: near(24) } });
  expect(rate('error replies')).toMatchObject({ n: 23, judge: { value: 3 / 23 } });
  expect(made.objectives).toMatchObject([{ n: 20, value: 7 / 20, bound: { atLeast: 0.95 } }]);
  const text = pageText(ratesPage(made));
  expect(text).toContain('calls without a reply, in no rate: no-connection 2, throttled 1, aborted 1');
  expect(text).toMatch(/^latency_ms: p50 15\d\d, p95 2\d\d\d, p99 2\d\d\d$/m);
  const csv = ratesCsv(made.groups, made.window).split('\n');
  const row = csv.find((line) => line.includes('time_to_first_token_ms')) ?? '';
  expect(row.split(',').slice(-4, -1).map(Number)).toEqual([near(1000), near(1900), near(2000)]);

  const cells = [{ hour: HOUR, variant: 'Blue', cell: rig.cell }];
  const facts = { cells, window: { fromMs: 0, toMs: 1 }, active, shadow: [], objectives: [], nowMs: Date.now() };
  const { findings } = healthOf(facts);
  const times = findings.filter(({ name }) => name === 'times');
  expect(times.map(({ subject }) => subject).sort()).toEqual(
    ['latency_ms', 'output_tokens_per_second', 'time_to_first_token_ms'].sort(),
  );
  expect(times[0]).toMatchObject({
    state: 'healthy',
    message: expect.stringMatching(/^latency_ms: p50 15\d\d, .* of 20 replies$/),
  });
  expect(findings.find(({ name }) => name === 'failed-calls')?.message).toMatch(
    /^14.8% \(.*\) of 27 calls are calls without a reply \(no-connection 2, throttled 1, aborted 1\)$/,
  );
});

test('times of any size that a caller may write leave the quantiles of the others as they are', async () => {
  const hostile = Array.from({ length: 400 }, (_, n) => {
    const endMs = n % 2 === 0 ? 86_400_000 / 1.05 ** (n / 2) : 1e-6 * 1.09 ** (n / 2);
    return timed(`h${n}`, { ...stream, firstByteMs: 0, firstMs: endMs, endMs } as never);
  });
  const many = Array.from({ length: 500 }, (_, n) => timed(`n${n}`, { ...stream, firstMs: 210, endMs: 430 } as never));
  const rig = new ChunkRig();
  await rig.evaluate(rig.request('one', {}, 0, [...hostile, ...many]), { scorers: codeScorers });
  const bins = rig.cell.scorers?.time_to_first_token_ms?.all?.numbers?.bins ?? {};
  expect(Object.values(bins)).toContain(500);
  expect(Object.keys(bins).length).toBeLessThanOrEqual(512);
});

test('only by an objective are they among the worst', async () => {
  const traces = ['300', '900'].map((ms, n) => ({
    ...{ trace_id: `tr-${n}`, request_time: `2026-11-20T10:00:0${n}Z`, tags: { sagemaker_variant_name: 'Blue' } },
    ...{ request_preview: `Q${n}`, response_preview: 'A' },
    assessments: [
      {
        ...{ assessment_name: 'time_to_first_token_ms', feedback: { value: Number(ms) }, valid: true, rationale: '' },
        ...{ source: { source_type: 'CODE', source_id: 'code:/t' }, last_update_time: '2026-11-20T10:00:00Z' },
        ...{ assessment_id: `a-${n}`, create_time: '2026-11-20T10:00:00Z', metadata: {} },
      },
    ],
  }));
  const rest = { repeat: async () => ({ traces }) } as never;
  const worstBy = async (...entries: string[]) => {
    const objectives = readObjectives(
      entries.map((entry) => JSON.parse(entry)),
      { scorers, sampleRate: 1 },
    );
    return (await readWorst(rest, { experimentId: '1', scorers, objectives, limit: 5 })).worst;
  };
  expect(await worstBy()).toEqual([]);
  expect(await worstBy(objective.replace('{', '{"variant":"Green",'))).toEqual([]);
  expect(await worstBy(objective)).toMatchObject([
    { traceId: 'tr-1', failing: [{ scorer: 'time_to_first_token_ms', value: 900 }] },
  ]);
});

/** A line of Data Capture, or of the client. @param id that the application gave to the call */
const sourced = (name: string, streamed?: boolean, id?: string) => {
  const line = JSON.parse(
    streamed === undefined ? chatLine(name) : timed(name, { ...stream, streamed, calls: 'all', endMs: 9 } as never),
  );
  line.eventMetadata = { ...line.eventMetadata, eventId: `${name}-${streamed}`, inferenceId: id };
  return JSON.stringify(line);
};
const crowd = Array.from({ length: 40 }, (_, n) => `n${n}`);

test.each([
  ['the same request and reply of both', true, [sourced('a', false), sourced('a')]],
  [
    'the same inference id of both, whose contents differ',
    true,
    [sourced('a', false, 'id'), sourced('b', undefined, 'id')],
  ],
  [
    'a tenth of many',
    true,
    [...crowd.map((name) => sourced(name, false)), ...crowd.slice(30).map((name) => sourced(name))],
  ],
  ['other calls of the client and of Data Capture', false, [sourced('a', false, 'x'), sourced('b', undefined, 'y')]],
  ['a stream of the client beside Data Capture', false, [sourced('a', true), sourced('a')]],
  ['a client that writes all, and repeats itself', false, [sourced('a', false, 'x'), sourced('a', false, 'y')]],
  ['Data Capture alone', false, [sourced('a', undefined, 'x'), sourced('a', undefined, 'y')]],
])('%s may count twice: %s', async (_, isFound, lines) => {
  const { rig } = await evaluated(lines);
  for (const counts of Object.values(rig.cell.digests ?? {}))
    expect(Object.keys(counts).length).toBeLessThanOrEqual(16);
  const cells = [{ hour: HOUR, variant: 'Blue', cell: rig.cell }];
  const facts = { cells, window: { fromMs: 0, toMs: 1 }, active: [], shadow: [], objectives: [], nowMs: Date.now() };
  const found = healthOf({ ...facts, isOfRun: true }).findings.filter(({ name }) => name === 'two-sources');
  expect(found.map(({ state, message }) => ({ state, message }))).toEqual(
    isFound
      ? [
          {
            state: 'needs a look',
            message: expect.stringMatching(/two sources.* may count twice, last in the hour of 2026-11-20 \d\d:00/),
          },
        ]
      : [],
  );
});
