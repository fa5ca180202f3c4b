/** The figures of the page are those of the summaries of the runs that it is made of. */
import { makePage } from '../../../src/health/make-page.ts';
import { summarizeRun } from '../../../src/monitoring/summarize-run.ts';
import type { RunSummary } from '../../../src/monitoring/summary.ts';
import { sumOfCells } from '../../../src/quality/counts-store.ts';
import { RunSums } from '../../../src/quality/run-sums.ts';
import { askedStackIn, useAskedStack } from '../../helpers/asked-stack.ts';
import { ChunkRig, HOUR, LINES } from '../../helpers/chunk-rig.ts';
import { environment, HOUR_MS } from '../../helpers/example-month.ts';
import { putPlan } from '../../helpers/planned-run.ts';

useAskedStack();

const hourMs = Date.parse(`${HOUR}:00:00Z`);

/** Reads the rows of a table of the page: its first cell's text, and the values of its figures. */
function figuresOf(html: string, title: string): Record<string, number[]> {
  const [, section = ''] = html.split(`<h2>${title}</h2>`);
  const rows = section.slice(0, section.indexOf('</section>')).split('<tr>').slice(2);
  return Object.fromEntries(
    rows.map((row) => [
      /<bdi>(.*?)<\/bdi>/.exec(row)?.[1] ?? '',
      [...row.matchAll(/<data value="([^"]*)"/g)].map(([, value]) => Number(value)),
    ]),
  );
}

test('every figure of the page is that of the summaries', async () => {
  const rig = new ChunkRig();
  const lines = [...LINES, 'not JSON'];
  const summaries: (RunSummary & { counted: ReturnType<RunSums['counted']> })[] = [];
  for (const [name, value] of [
    ['one', 'yes'],
    ['two', 'no'],
  ] as const) {
    rig.value = value;
    const request = rig.request(
      name,
      {},
      0,
      name === 'one' ? lines : LINES.map((line) => line.replace('line', 'reply')),
    );
    putPlan(rig.storage, name, [[request.chunk]], { scorers: 3 });
    await rig.log(request);
    await rig.evaluate(request);
    const run = { name, startTime: `${HOUR}:00:00Z` };
    const work = { storage: rig.storage.storage, workBucket: 'work' };
    const [part, quality] = [{ part: 0, remainingMs: () => Infinity }, new RunSums()];
    const summary = await summarizeRun(work, run, undefined, part, quality);
    summaries.push({ ...summary, counted: quality.counted() });
  }
  const stack = { ...(await askedStackIn({ storage: rig.storage, hours: 0 })), environment };
  const window = { fromMs: hourMs, toMs: hourMs + HOUR_MS };
  const { html } = await makePage(stack, { window, nowMs: window.toMs });
  const sum = (of: (one: (typeof summaries)[number]) => number | null) =>
    summaries.reduce((total, one) => total + (of(one) ?? 0), 0);
  const counted = sumOfCells(summaries.flatMap((one) => Object.values(one.counted.variants).map((cell) => ({ cell }))));
  const usd = sum((one) => one.spend.usd);
  expect(usd).toBeGreaterThan(0);
  for (const named of [
    `Blue ${sum((one) => one.lines.traced)}`,
    `in ${counted.inputTokens}`,
    `out ${counted.outputTokens}`,
    `judge ${usd.toLocaleString('en-US', { maximumFractionDigits: 2 })}`,
    `NotJson ${sum((one) => one.quarantineReasons.NotJson ?? 0)}`,
  ])
    expect(html).toContain(`>${named}<`);
  const quality = figuresOf(html, 'Quality');
  const verdicts = (scorer: string, value: string) => sum((one) => one.verdictsByScorer[scorer]?.[value] ?? 0);
  for (const [scorer, good, bad] of [
    ['safety', 'yes', 'no'],
    ['cut_off', 'false', 'true'],
  ] as const) {
    const [yes, no] = [verdicts(scorer, good), verdicts(scorer, bad)];
    expect(yes + no).toBe(16);
    expect(quality[scorer]).toMatchObject([yes / (yes + no), expect.any(Number), expect.any(Number), yes + no]);
  }
});
