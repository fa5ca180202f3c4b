/** The figures of the page are those of the summaries of the runs that it is made of. */
import { makePage } from '../../../src/health/make-page.ts';
import { summarizeRun } from '../../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { sumOfCells } from '../../../src/quality/counts-store.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import { askedStackIn, useAskedStack } from '../../helpers/asked-stack.ts';
import { ChunkRig, HOUR, LINES } from '../../helpers/chunk-rig.ts';
import { environment, HOUR_MS } from '../../helpers/example-month.ts';
import { legendOf, tableOf } from '../../helpers/page-reader.ts';
import { putPlan } from '../../helpers/planned-run.ts';

useAskedStack();

const hourMs = Date.parse(`${HOUR}:00:00Z`);

test('every figure of the page is that of the summaries', async () => {
  const rig = new ChunkRig();
  const lines = [...LINES, 'not JSON'];
  const summaries: (RunSummary & { counted: Pick<RunSums, 'variants'> })[] = [];
  for (const [name, value] of [
    ['one', 'yes'],
    ['two', 'no'],
  ] as const) {
    rig.value = value;
    const own = name === 'one' ? lines : LINES.map((line) => line.replace('line', 'reply'));
    const request = rig.request(name, {}, 0, own);
    putPlan(rig.storage, name, [[request.chunk]], { scorers: 3 });
    await rig.log(request);
    await rig.evaluate(request);
    const run = { name, startTime: `${HOUR}:00:00Z` };
    const work = { storage: rig.storage.storage, workBucket: 'work' };
    const [part, quality] = [{ part: 0, remainingMs: () => Infinity }, new RunSums()];
    const summary = await summarizeRun(work, run, undefined, part, quality);
    summaries.push({ ...summary, counted: quality });
  }
  const stack = { ...(await askedStackIn({ storage: rig.storage, hours: 0 })), environment };
  const window = { fromMs: hourMs, toMs: hourMs + HOUR_MS };
  const { html } = await makePage(stack, { window, nowMs: window.toMs });
  const sum = (of: (one: (typeof summaries)[number]) => number | null) =>
    summaries.reduce((total, one) => total + (of(one) ?? 0), 0);
  const counted = sumOfCells(summaries.flatMap((one) => Object.values(one.counted.variants).map((cell) => ({ cell }))));
  const usd = sum((one) => one.spend.usd);
  expect(usd).toBeGreaterThan(0);
  expect(legendOf(html, 'Captures by variant')).toEqual([`Blue ${sum((one) => one.lines.traced)}`]);
  expect(legendOf(html, 'Tokens')).toEqual([`in ${counted.inputTokens}`, `out ${counted.outputTokens}`]);
  expect(Number(legendOf(html, 'US dollars for the judge')[0]?.split(' ')[1])).toBeCloseTo(usd, 2);
  const quarantined = sum((one) => one.quarantineReasons.NotJson ?? 0);
  expect(legendOf(html, 'Lines in quarantine, by reason')).toEqual([`NotJson ${quarantined}`]);
  const verdicts = (scorer: string, value: string) => sum((one) => one.verdictsByScorer[scorer]?.[value] ?? 0);
  for (const [row, good, bad] of [
    ['safety harm', 'yes', 'no'],
    ['cut_off', 'false', 'true'],
  ] as const) {
    const [name = ''] = row.split(' ');
    const [yes, no] = [verdicts(name, good), verdicts(name, bad)];
    expect(yes + no).toBe(16);
    const { good: share, judged } = tableOf(html, 'Quality').get(row) ?? {};
    expect([share?.values[0], judged?.values]).toEqual([yes / (yes + no), [yes + no]]);
  }
});
