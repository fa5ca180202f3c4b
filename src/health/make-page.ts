/** Reads the facts for the page, and builds the page. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import type { Work } from '../core/aws/storage.ts';
import type { LambdaEnvironment } from '../core/settings/environment.ts';
import { labeledHours, readTraffic } from '../ground-truth/join/labeled-store.ts';
import { decideKind, measureTruth } from '../ground-truth/measure/measure.ts';
import { activeScorers } from '../judge/active-scorers.ts';
import { DEFAULT_DAYS, hourMs, type TimeWindow } from '../quality/counts-store.ts';
import { objectiveRates } from '../quality/objective-rates.ts';
import { readChanges } from '../quality/objective-states.ts';
import { hourOf } from '../quality/tally.ts';
import { type Health, healthOf } from './findings.ts';
import { type AskedStack, readFacts, type StartOf } from './gather.ts';
import { healthPage, type PageFacts } from './page.ts';
import { pointsOf } from './page-charts.ts';

/** Without `withQuotes`, the page contains no captured text except names of one word. */
type PageQuery = Pick<PageFacts, 'window' | 'nowMs' | 'worst'> & { withQuotes?: boolean };

/**
 * Reads the facts and returns the page, and the state that it shows.
 *
 * @example
 *     const { html } = await makePage(stack, { window, nowMs: Date.now() });
 */
export async function makePage(stack: AskedStack, query: PageQuery): Promise<{ html: string; health: Health }> {
  const { window, nowMs, withQuotes = true, worst } = query;
  const { storage, environment } = stack;
  const { WORK_BUCKET: workBucket, SAGEMAKER_ENDPOINT_NAME: endpoint } = environment;
  const work = { storage, workBucket };
  const of = withQuotes ? stack : { ...stack, named: numberedTexts(environment) };
  const { fromMs, toMs } = window;
  const points = pointsOf(window);
  const recentMs = Math.floor(nowMs / HOUR_MS - 24 * DEFAULT_DAYS) * HOUR_MS;
  const recent = { fromMs: toMs < nowMs ? fromMs : Math.max(fromMs, recentMs), toMs };
  const length = toMs - recent.fromMs;
  // The hours that the state covers, and as many hours before them, are not added up.
  const startOf: StartOf = (hour) => (hourMs(hour) >= toMs - 2 * length ? hour : points.startOf(hour));
  const facts = await readFacts(of, { window, nowMs, ended: recent, startOf });
  const cells = facts.cells.filter(({ hour }) => hourMs(hour) >= recent.fromMs);
  const objectives = await objectiveRates(work, environment, cells);
  const health = healthOf({ ...facts, cells, objectives, window: recent });
  const truth = await truthOf(work, of, window);
  const [changes, predicts] = [await readChanges(work, window), environment.GROUND_TRUTH.kind];
  const page = { ...facts, endpoint, points, health, recent, changes, predicts, truth, worst };
  return { html: await healthPage(page), health };
}

async function truthOf(work: Work, { environment, named }: AskedStack, { fromMs, toMs }: TimeWindow) {
  const { GROUND_TRUTH: settings, SHADOW_VARIANTS: shadow } = environment;
  const hours = await labeledHours(work, { from: hourOf(fromMs), to: hourOf(toMs) });
  if (hours.length === 0) return undefined;
  const read = () => readTraffic(work, hours);
  const decided = await decideKind(read, settings, { shadow });
  const measured = (by?: 'variant') => measureTruth(read, settings, { by, shadow }, decided);
  const truth = { all: await measured(), byVariant: await measured('variant') };
  const labeled = { fromMs: hourMs(hours[0] ?? ''), toMs: hourMs(hours.at(-1) ?? '') + HOUR_MS };
  return { ...(named?.(truth) ?? truth), labeled };
}

// ------------------------------------------------------------------------------------------------- without quotes

/** The name of an error, a class or a group. A longer text may contain anything. */
const NAME = /^[\w.:*+-]{1,40}$/;
/** The fields of figures with text from a request or a reply. */
const SAID = ['class', 'label', 'predicted', 'positive', 'value'];
/** The fields whose names come from settings. */
const OF_SETTINGS = ['scorers', 'measures', 'groups'];

/**
 * Replaces captured texts by numbers, equal texts by equal numbers: names of counts (their keys), and texts in figures.
 */
function numberedTexts(environment: LambdaEnvironment): <T>(counts: T) => T {
  const values = activeScorers(environment).flatMap((one) => ('values' in one ? [one.values] : []));
  const known = values.flatMap((one) => ('values' in one ? one.values : []));
  const numbers = new Map<string, string>();
  const nameOf = (text: string): string => {
    if (NAME.test(text) || known.includes(text)) return text;
    const name = numbers.get(text) ?? `(text ${numbers.size + 1})`;
    numbers.set(text, name);
    return name;
  };
  const shown = (key: string, value: unknown): unknown => {
    if (typeof value === 'string') return SAID.includes(key) ? nameOf(value) : value;
    if (typeof value !== 'object' || Array.isArray(value) || OF_SETTINGS.includes(key)) return value;
    return value && Object.fromEntries(Object.entries(value).map(([name, one]) => [nameOf(name), one]));
  };
  return (counts) => JSON.parse(JSON.stringify(counts), shown);
}
