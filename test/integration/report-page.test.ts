/** The page about an endpoint, in a browser: ten questions, each answered by one look, and every figure against `rates` and `ground-truth`. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { ratesReport } from '../../bin/commands/rates.ts';
import { truthFigures } from '../../bin/operate/truth-run.ts';
import { launchChromium } from '../../local/machine/chromium.ts';
import type { LabeledRow } from '../../src/core/contract/ground-truth.ts';
import { Random } from '../../src/core/values/random.ts';
import type { Figure } from '../../src/ground-truth/measure/figures.ts';
import { makePage } from '../../src/health/make-page.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { askedStackIn, useAskedStack } from '../helpers/asked-stack.ts';
import { environment as example, HOUR_MS, NOW_MS, writeMonth } from '../helpers/example-month.ts';
import { expectReadable, inBrowser, VIEWS } from '../helpers/in-browser.ts';
import { LabeledHours } from '../helpers/labeled-rows.ts';

useAskedStack();

const HOSTILE = '<img src=x onerror="document.title=1">';
const toMs = Math.ceil(NOW_MS / HOUR_MS) * HOUR_MS;
const window = { fromMs: toMs - 30 * 24 * HOUR_MS, toMs };
const before = { fromMs: window.fromMs - 5 * 24 * HOUR_MS, toMs: window.fromMs };
const environment = { ...example, GROUND_TRUTH: { ...example.GROUND_TRUTH, groups: ['age'] } };

/** True answers to predictions of a probability, which people over 60 have too low. */
function labels(random: Random): LabeledRow[] {
  return Array.from({ length: 2_000 }, (_, n) => {
    const [score, isOld] = [random.next(), n % 3 === 0];
    const label = Number(random.next() < (isOld ? Math.min(1, score + 0.4) : score));
    return {
      ...{ id: `i${n}`, endpoint: 'garden-helpdesk', variant: n % 2 ? 'blue' : 'green', traceId: `tr-${n}` },
      ...{ second: NOW_MS / 1000 - 3_600 * (n % 100), prediction: { scores: [1 - score, score] } },
      ...{ label, timeMs: NOW_MS, line: n, groups: [isOld ? '60+' : '18-59'] },
    };
  });
}

const storage = new LabeledHours();
const memory = storage.memory;
let html: string;
let hidden: string;
beforeAll(async () => {
  await writeMonth(memory.storage, 35);
  await storage.join(labels(new Random(7)));
  const odd = {
    ...{ captures: 3, errorReplies: 3, errorKinds: { [HOSTILE]: 2, [`${HOSTILE}2`]: 1 } },
    predictions: { classes: { [HOSTILE]: 9 } },
  };
  const stack = {
    ...(await askedStackIn({ storage: memory, hour: (ago) => (ago === 30 ? { green: odd } : {}) })),
    environment,
  };
  const query = { window, before, nowMs: NOW_MS };
  html = (await makePage(stack, { ...query, more: '' })).html;
  hidden = (await makePage(stack, { ...query, withQuotes: false })).html;
});

test('the page of 35 days is small, and without words it has none of the captures', () => {
  expect(html.length).toBeLessThan(1_500_000);
  expect(html).toContain('onerror=&#34;');
  for (const name of ['(text 1)', '(text 2)']) expect(hidden).toContain(name);
  expect(hidden.match(/\(text 2\)<\/bdi><\/td><td[^>]*><data value="(\d+)"/)?.[1]).toBe('1');
  expect(hidden).not.toContain('onerror');
});

test('a point of a chart is where its value is', async () => {
  const truth = await truthFigures(memory.storage, 'work', environment.GROUND_TRUTH, window);
  const found = truth?.groups[0]?.classes?.calibration?.map((one) => one.found.value ?? Number.NaN);
  const [, section = ''] = html.split('<h2>Calibration</h2>');
  const chart = section.slice(0, section.indexOf('</svg>'));
  const axis = chart.matchAll(/text-anchor="end"[^>]*translate\([\d.]+ ([\d.]+)\)[^>]*>([\d.]+)%</g);
  const marks = Array.from(axis, ([, y, share]) => ({ y: Number(y), value: Number(share) / 100 }));
  const [low, high] = [marks[0], marks.at(-1)];
  if (low === undefined || high === undefined || low === high) throw new Error('no axis');
  const valueAt = (y: number) => low.value + ((y - low.y) / (high.y - low.y)) * (high.value - low.value);
  // The symbols of the first curve.
  const points = chart.matchAll(/matrix\(2\.5,0,0,2\.5,[\d.]+,([\d.]+)\)" fill="#3b82d6"/g);
  expect(Array.from(points, ([, y]) => valueAt(Number(y)))).toEqual(found?.map((value) => expect.closeTo(value, 3)));
});

inBrowser('in a browser', () => {
  let browser: Browser;
  let page: Page;
  let folder: string;
  const asked: string[] = [];
  beforeAll(async () => {
    folder = mkdtempSync(join(tmpdir(), 'report-'));
    writeFileSync(join(folder, 'report.html'), html);
    browser = await launchChromium();
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(`file://${folder}/report.html`);
  });
  afterAll(async () => {
    await browser?.close();
    rmSync(folder, { recursive: true });
  });

  interface Cell {
    text: string;
    values: number[];
  }

  /** Reads the tables of a section: by the first cell of each row, its other cells by the name of their column. */
  async function table(title: string): Promise<Map<string, Record<string, Cell>>> {
    const rows = await page
      .locator('section', { has: page.getByRole('heading', { name: title, exact: true }) })
      .evaluate((section) =>
        [...section.querySelectorAll('tbody tr')].map((row) =>
          [...row.querySelectorAll('td')].map((cell) => ({
            name: cell.dataset.name ?? '',
            text: cell.textContent ?? '',
            values: [...cell.querySelectorAll('data')].map(({ value }) => Number(value)),
          })),
        ),
      );
    return new Map(
      rows.map((cells) => [
        cells[0]?.text.trim() ?? '',
        Object.fromEntries(cells.map(({ name, ...cell }) => [name, cell])),
      ]),
    );
  }
  const row = async (title: string, name: string) => (await table(title)).get(name) ?? {};
  const first = async (title: string) => [...(await table(title))][0] ?? [];

  test.each<[string, () => Promise<string | undefined>, RegExp]>([
    [
      'Is it healthy?',
      async () => (await page.locator('.state').textContent()) ?? '',
      /^✗ bad: fluency is missed since 2026-11-24/,
    ],
    [
      'What next?',
      async () => (await first('Findings'))[1]?.next?.text,
      /^inference-monitor worst --scorer fluency --from 2026-11-29T12:00Z$/,
    ],
    [
      'Since when is fluency worse?',
      async () => (await row('Objectives', 'fluency')).since?.text,
      /^2026-11-24 0\d:00 UTC$/,
    ],
    ['For whom?', async () => (await row('Variants', 'fluency'))['green − blue']?.text, /▼ worse$/],
    [
      'How sure is that?',
      async () => (await row('Quality', 'fluency style')).good?.text,
      /^9\d\.\d% \(9\d\.\d% to 9\d\.\d%\)$/,
    ],
    ['Of what kind are the error replies?', async () => (await first('Error replies by kind'))[0], /^503$/],
    [
      'Why was so much not judged?',
      async () => (await row('Captures by outcome', 'fluency'))['not drawn']?.text,
      /^[\d,]{5,}$/,
    ],
    [
      'What did the judge cost?',
      async () => [...(await table('In all')).values()][0]?.['US dollars for the judge']?.text,
      /^\d\d\.\d\d$/,
    ],
    [
      'May the shadow variant serve?',
      async () => (await row('Variants', 'coherence'))['next − blue']?.text,
      /▼ worse$/,
    ],
    [
      'For which group are predictions wrong?',
      async () => (await row('By age', '60+'))['true positive rate']?.text,
      /^\d\d\.\d%/,
    ],
  ])('%s', async (_, find, answer) => {
    expect(await find()).toMatch(answer);
  });

  test('every figure is that of rates --json and ground-truth --json', async () => {
    const iso = (ms: number): string => new Date(ms).toISOString();
    const flags = {
      from: iso(window.fromMs),
      to: iso(window.toMs),
      compareFrom: iso(before.fromMs),
      compareTo: iso(before.toMs),
    };
    const query = {
      active: activeScorers(environment),
      shadow: environment.SHADOW_VARIANTS,
      objectives: environment,
      nowMs: NOW_MS,
    };
    const report = await ratesReport(memory.storage, 'work', flags, query);
    const [all] = report.groups;
    const quality = [...(await table('Quality'))].map(([name, cells]) => [name.split(' ')[0], cells] as const);
    const shown = (all?.rates ?? []).filter(({ good, n }) => good !== null && n > 0);
    expect(quality).toHaveLength(shown.length);
    for (const { scorer, good, n } of shown) {
      const cells = quality.find(([name]) => name === (scorer === 'error replies' ? 'without' : scorer))?.[1];
      expect([cells?.good?.values, cells?.judged?.values]).toEqual([[good?.value, good?.low, good?.high], [n]]);
      const change = report.compared?.differences.find((one) => one.scorer === scorer)?.good;
      expect(cells?.['change in points']?.values).toEqual([change?.value, change?.low, change?.high]);
    }
    const { captures, errorReplies, inputTokens, outputTokens, judgeUsd, errorKinds } = all?.totals ?? {};
    const sums = Object.values([...(await table('In all')).values()][0] ?? {}).flatMap(({ values }) => values);
    // Dollars are added up in another order.
    const dollars = expect.closeTo(judgeUsd ?? 0, 6);
    expect(sums).toEqual([captures, errorReplies, inputTokens, outputTokens, dollars]);
    const kinds = [...(await table('Error replies by kind'))].map(([name, { count }]) => [name, count?.values[0]]);
    expect(Object.fromEntries(kinds)).toEqual(errorKinds);
    const outcomes = await table('Captures by outcome');
    expect([...outcomes.keys()]).toEqual(all?.outcomes.map(({ scorer }) => scorer));
    for (const cells of outcomes.values())
      expect(Object.values(cells).reduce((sum, { values: [count = 0] }) => sum + count, 0)).toBe(captures);
    const byVariant = await ratesReport(
      memory.storage,
      'work',
      { ...flags, by: 'variant', compareFrom: undefined, compareTo: undefined } as never,
      query,
    );
    for (const [name, cells] of await table('Variants')) {
      for (const { group, rates } of byVariant.groups) {
        const rate = rates.find(({ scorer }) => scorer === (name === 'without error' ? 'error replies' : name));
        const cell = cells[group] ?? cells[`${group} (shadow)`];
        expect(cell?.values).toEqual([rate?.good?.value, rate?.good?.low, rate?.good?.high, rate?.n]);
      }
    }
    const truth = await truthFigures(memory.storage, 'work', environment.GROUND_TRUTH, window);
    const [total] = truth?.groups ?? [];
    const cells = await row('True answers', 'all');
    expect(html).toContain('Labels of the predictions of 2026-11-26 09:00 to 2026-11-30 13:00 UTC.');
    const ends = (figure: Figure | undefined) => [figure?.value, figure?.low, figure?.high];
    expect(cells.accuracy?.values).toEqual(ends(total?.measures.accuracy));
    expect(cells.AUC?.values).toEqual(ends(total?.measures.auc));
    const matrix = [...(await table('Confusion matrix'))].flatMap(([label, { label: _, ...others }]) =>
      Object.entries(others).map(([name, { values }]) => ({
        label,
        predicted: name.replace('predicted ', ''),
        count: values[0],
      })),
    );
    expect(matrix).toEqual(expect.arrayContaining(total?.classes?.confusion ?? []));
    const curve = [...(await table('Calibration')).values()].map(({ found, labels: rows }) => [
      ...(found?.values ?? []),
      rows?.values[0],
    ]);
    expect(curve).toEqual(total?.classes?.calibration?.map(({ found, rows }) => [...ends(found), rows]));
    expect(curve.length).toBeGreaterThan(8);
  });

  test.each(VIEWS)('fits %i pixels, and axe finds nothing (%s)', async (...view) => {
    await expectReadable(page, view);
    const label = await page.evaluate(
      "getComputedStyle([...document.querySelectorAll('section')].find((one) => one.querySelector('h2')?.textContent === 'In all').querySelector('td'), '::before').content",
    );
    expect(label === 'none').toBe(view[0] === 1280);
  });

  test('loads nothing, runs nothing of a capture, and can be printed', async () => {
    expect(asked).toEqual([`file://${folder}/report.html`]);
    expect(await page.title()).toBe('garden-helpdesk: bad');
    expect((await page.pdf({ format: 'A4' })).length).toBeGreaterThan(50_000);
  });
});
