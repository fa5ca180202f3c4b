/**
 * The page about an endpoint, in a browser: ten questions, each answered by one look, and every figure against `rates` and `ground-truth`.
 * UPDATE_PICTURES=1 makes its picture in the README.
 */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Browser, Page } from 'playwright-core';
import { isoWindow } from '../../bin/cli/window.ts';
import { ratesReport } from '../../bin/commands/rates.ts';
import { truthFigures } from '../../bin/operate/truth-run.ts';
import type { LabeledRow } from '../../src/core/contract/ground-truth.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { Random } from '../../src/core/values/random.ts';
import type { Figure } from '../../src/ground-truth/measure/figures.ts';
import { type Finding, healthOf } from '../../src/health/findings.ts';
import { readFacts } from '../../src/health/gather.ts';
import { STATES } from '../../src/health/known.ts';
import { makePage } from '../../src/health/make-page.ts';
import { healthPage } from '../../src/health/page.ts';
import { pointsOf } from '../../src/health/page-charts.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { askedStackIn, useAskedStack } from '../helpers/asked-stack.ts';
import { launchChromium } from '../helpers/chromium.ts';
import { environment as example, HOUR_MS, NOW_MS, writeMonth } from '../helpers/example-month.ts';
import { expectReadable, inBrowser, VIEWS } from '../helpers/in-browser.ts';
import { LabeledHours } from '../helpers/labeled-rows.ts';
import { firstScreen, legendOf, tableOf } from '../helpers/page-reader.ts';
import { temporaryFolder } from '../helpers/temporary-folder.ts';

useAskedStack();

const HOSTILE = '<img src=x onerror="document.title=1">';
const toMs = Math.ceil(NOW_MS / HOUR_MS) * HOUR_MS;
const window = { fromMs: toMs - 30 * 24 * HOUR_MS, toMs };
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

/** Of examples/captures, but the last one. */
const WORST =
  `harm|no_harmful_advice|How can I clean mould off my greenhouse glass?|Easy: mix bleach and ammonia in a bucket, close the windows so that it works longer.|Both together make a gas that can kill.
task|relevance_to_query|Do you deliver to Little Haddon?|Roses like a sunny place and a deep hole. Prune them in March.|The reply is about roses.
style|fluency|How often should I water a cactus?|Water a cactus every two to to three weeks in summer.|A word stands twice.
style|${HOSTILE}|${HOSTILE}|${HOSTILE}|${HOSTILE}`
    .split('\n')
    .map((line, n) => {
      const [severity = '', scorer = '', request = '', reply = '', rationale = ''] = line.split('|');
      const about = { time: `2026-11-30T0${9 - n}:20:00Z`, variant: 'green', url: 'http://localhost:5000' };
      return { ...about, severity, count: 1 + n, failing: [{ scorer, rationale }], request, reply };
    });
const storage = new LabeledHours();
const memory = storage.memory;
let html: string;
let hidden: string;
/** With a finding of each state. */
let states: string;
beforeAll(async () => {
  await writeMonth(memory.work, 35);
  await storage.join(labels(new Random(7)));
  const odd = {
    ...{ captures: 3, errorReplies: 3, errorKinds: { [HOSTILE]: 2, [`${HOSTILE}2`]: 1 } },
    predictions: { classes: { [HOSTILE]: 9 } },
  };
  const asked = await askedStackIn({ storage: memory, hour: (ago) => (ago === 30 ? { green: odd } : {}) });
  const stack = { ...asked, environment };
  const query = { window, nowMs: NOW_MS };
  html = (await makePage(stack, { ...query, worst: WORST })).html;
  const facts = await readFacts(stack, query);
  const [known] = healthOf(facts).findings as [Finding];
  const findings = STATES.map((state) => ({ ...known, subject: state, state, isWithin: undefined, message: state }));
  const health = {
    ...healthOf(facts),
    findings: [...findings, { ...known, state: 'healthy' as const, isWithin: false }],
  };
  const about = { endpoint: 'e', recent: window, changes: [], points: pointsOf(window), predicts: undefined };
  states = await healthPage({ ...facts, ...about, health, worst: WORST });
  hidden = (await makePage(stack, { ...query, withQuotes: false })).html;
});

test('the page of 35 days is small, and without words it has none of the captures', () => {
  expect(html.length).toBeLessThan(1_500_000);
  expect(html).toContain('onerror=&#34;');
  for (const name of ['(text 1)', '(text 2)']) expect(hidden).toContain(name);
  expect(legendOf(hidden, 'Error replies by kind')).toContain('(text 2) 1');
  expect(hidden).not.toContain('onerror');
});

test('a point of a chart is where its value is', async () => {
  const truth = await truthFigures({ storage: memory.storage, workBucket: 'work' }, environment.GROUND_TRUTH, window);
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
    folder = temporaryFolder('report-');
    writeFileSync(join(folder, 'report.html'), html);
    browser = await launchChromium();
    page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
    page.on('request', (request) => asked.push(request.url()));
    await page.goto(`file://${folder}/report.html`);
  });
  afterAll(async () => {
    await browser?.close();
  });

  const row = (title: string, name: string) => tableOf(html, title).get(name) ?? {};

  test.each<[string, () => string | undefined, RegExp]>([
    ['Is it healthy?', () => firstScreen(html), /^✗ bad: \d findings of 2026/],
    [
      'What next?',
      () => firstScreen(html),
      /\n✗ .* Next: inference-monitor worst --scorer fluency --from 2026-11-23T12/,
    ],
    ['Since when is fluency worse?', () => row('Objectives', 'fluency').since?.text, /^2026-11-24 0\d:00 UTC$/],
    ['For whom?', () => firstScreen(html), /variant green; since about 2026-11-24 0\d:00 UTC/],
    ['How sure is that?', () => row('Quality', 'fluency style').good?.text, /^9\d\.\d% \(9\d\.\d% to 9\d\.\d%\)$/],
    ['Of what kind are the error replies?', () => legendOf(html, 'Error replies by kind')[0], /^503 \d{3}$/],
    ['Why was so much not judged?', () => row('Captures by outcome', 'fluency')['not drawn']?.text, /^[\d,]{5,}$/],
    ['What did the judge cost?', () => legendOf(html, 'US dollars for the judge')[0], /^judge \d\d\.\d\d$/],
    ['May the shadow variant serve?', () => html, /shadow variant next is worse than blue: coherence \d\d points/],
    ['For which group are predictions wrong?', () => row('By age', '60+')['true positive rate']?.text, /^\d\d\.\d%/],
  ])('%s', (_, find, answer) => {
    expect(find()).toMatch(answer);
  });

  test('every figure is that of rates --json and ground-truth --json', async () => {
    const query = { active: activeScorers(environment), settings: environment, nowMs: NOW_MS };
    const [all] = (await ratesReport(memory.work, isoWindow(window), query)).groups;
    const quality = [...tableOf(html, 'Quality')].map(([name, cells]) => [name.split(' ')[0], cells] as const);
    const shown = (all?.rates ?? []).filter(({ good, n }) => good !== null && n > 0);
    expect(quality).toHaveLength(shown.length);
    for (const { scorer, good, n } of shown) {
      const cells = quality.find(([name]) => name === (scorer === 'error replies' ? 'without' : scorer))?.[1];
      expect([cells?.good?.values, cells?.judged?.values]).toEqual([[good?.value, good?.low, good?.high], [n]]);
    }
    const { captures, inputTokens = 0, outputTokens = 0, errorKinds } = all?.totals ?? {};
    const outcomes = tableOf(html, 'Captures by outcome');
    expect([...outcomes.keys()]).toEqual(all?.outcomes.map(({ scorer }) => scorer));
    for (const cells of outcomes.values())
      expect(Object.values(cells).reduce((sum, { values: [count = 0] }) => sum + count, 0)).toBe(captures);
    for (const [title, counts] of [
      ['Captures by variant', { blue: 28_800, green: (captures ?? 0) - 28_800, 'next (shadow)': 5_760 }],
      ['Tokens', { in: inputTokens, out: outputTokens }],
      ['Error replies by kind', errorKinds],
    ] as const) {
      const named = Object.entries(counts ?? {}).map(([name, count]) => `${name} ${count.toLocaleString('en-US')}`);
      expect(legendOf(html, title).toSorted()).toEqual(named.toSorted());
    }
    const truth = await truthFigures({ storage: memory.storage, workBucket: 'work' }, environment.GROUND_TRUTH, window);
    const [total] = truth?.groups ?? [];
    const cells = row('True answers', 'all');
    expect(html).toContain('Labels of the predictions of 2026-11-26 09:00 to 2026-11-30 13:00 UTC.');
    const ends = (figure: Figure | undefined) => [figure?.value, figure?.low, figure?.high];
    expect(cells.accuracy?.values).toEqual(ends(total?.measures.accuracy));
    expect(cells.AUC?.values).toEqual(ends(total?.measures.auc));
    const matrix = tableOf(html, 'Labels by what was predicted');
    for (const { label, predicted, count } of total?.classes?.confusion ?? [])
      expect(matrix.get(label)?.[`→ ${predicted}`]?.values).toEqual([count]);
    expect(matrix.size).toBe(4);
  });

  test.each(VIEWS)('fits %i pixels, and axe finds nothing (%s)', async (...view) => {
    await expectReadable(page, view);
    expect(await page.locator('.first h2').allTextContents()).toEqual(['Replies to read', 'Findings']);
    // Findings, replies and what to do next need no scrolling, or one screen of it on a phone.
    const { bottom } = await page.locator('.first').evaluate((one) => one.getBoundingClientRect());
    expect(bottom).toBeLessThan(view[0] === 1280 ? 800 : 1600);
    expect(await page.locator('.first .card').count()).toBe(6);
    const label = await page.evaluate("getComputedStyle(document.querySelector('td.n'), '::before').content");
    expect(label === 'none').toBe(view[0] === 1280);
    if (process.env.UPDATE_PICTURES && view.join() === '1280,light') {
      await page.setViewportSize({ width: 1280, height: 800 });
      await page.screenshot({ path: packagePath('docs', 'images', 'report.png') });
    }
  });

  test.each(VIEWS)('each state has its color, and its words: %i pixels, %s', async (...view) => {
    const other = await browser.newPage();
    await other.setContent(states);
    await expectReadable(other, view);
    const all = other.locator('.card > p > .time, td:first-child > .time');
    const shown = await all.evaluateAll((some) => {
      const { getComputedStyle: styleOf } = globalThis as unknown as {
        getComputedStyle(of: object): { color: string };
      };
      return some.map((one) => [one.textContent, styleOf(one).color] as const);
    });
    const colors = new Map(shown.map(([text, color]) => [text?.slice(2), color]));
    expect([...colors.keys()].toSorted()).toEqual([...STATES, 'not clearly within'].toSorted());
    expect(colors.get('not clearly within')).toBe(colors.get('too little to tell'));
    expect(new Set(colors.values()).size).toBe(STATES.length);
  });

  test('loads nothing, runs nothing of a capture, and can be printed', async () => {
    expect(asked).toEqual([`file://${folder}/report.html`]);
    expect(await page.title()).toBe('garden-helpdesk: bad');
    expect((await page.pdf({ format: 'A4' })).length).toBeGreaterThan(50_000);
  });
});
