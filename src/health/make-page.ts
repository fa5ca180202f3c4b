/** Reads what the page is made of, and makes it. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { labeledHours, readLabeled } from '../ground-truth/join/labeled-store.ts';
import { measureTruth } from '../ground-truth/measure/measure.ts';
import { addTree } from '../quality/count-tree.ts';
import { type CountedCell, hourMs, type TimeWindow } from '../quality/counts-store.ts';
import { objectiveRates } from '../quality/objective-rates.ts';
import { readTurns } from '../quality/objective-states.ts';
import type { LabelsOf } from '../quality/rates.ts';
import { hourOf } from '../quality/tally.ts';
import type { HealthFacts } from './facts.ts';
import { type Health, healthOf } from './findings.ts';
import { type AskedStack, readFacts } from './gather.ts';
import { bucketsOf, healthPage, type PageFacts } from './page.ts';

const DAY_MS = 24 * HOUR_MS;

export interface PageQuery extends Pick<PageFacts, 'more'> {
  window: TimeWindow;
  /** To compare with. */
  before: TimeWindow;
  nowMs: number;
  /** People's labels. */
  labelsOf?: LabelsOf;
  /** Otherwise no text of captures is on the page but names of one word. */
  withQuotes?: boolean;
}

/** Reads the facts and returns the page, and the state that it says. */
export async function makePage(of: AskedStack, query: PageQuery): Promise<{ html: string; health: Health }> {
  const { window, more, withQuotes = true } = query;
  const { storage, environment } = of;
  const { WORK_BUCKET: bucket, SAGEMAKER_ENDPOINT_NAME: endpoint } = environment;
  const { day, ...parts } = await readParts(of, query);
  const health = healthOf({ ...day, objectives: await objectiveRates(storage, bucket, environment, day.cells) });
  const turns = await readTurns(storage, bucket, window);
  const found = await truthOf(of, window);
  const truth = withQuotes || found === undefined ? found : truthInNames(found);
  return { html: await healthPage({ endpoint, ...parts, health, healthOf: day.window, turns, truth, more }), health };
}

/** Reads the facts, and adds up their hours, which take the most memory, before charts are drawn. */
async function readParts(of: AskedStack, { window, before, nowMs, labelsOf, withQuotes = true }: PageQuery) {
  const read = { ...(await readFacts(of, window, before, nowMs, lastOf(window, nowMs))), labelsOf };
  const said = new Set(
    read.active.flatMap((one) => ('values' in one && 'values' in one.values ? one.values.values : [])),
  );
  const named = ({ cell, ...rest }: CountedCell): CountedCell => ({ ...rest, cell: inNames(cell, said) });
  const facts = withQuotes ? read : { ...read, cells: read.cells.map(named) };
  const buckets = bucketsOf(facts);
  // Labels are of captures in single hours.
  return { day: lastDay(facts), buckets, facts: labelsOf ? facts : { ...facts, cells: buckets.cells } };
}

/** Returns the last day of a longer window that ends now. */
const lastOf = ({ fromMs, toMs }: TimeWindow, nowMs: number): TimeWindow =>
  toMs < nowMs ? { fromMs, toMs } : { fromMs: Math.max(fromMs, toMs - DAY_MS), toMs };

/** Returns the facts of the last day, as `status` does, compared with the day before. */
function lastDay(facts: HealthFacts): HealthFacts {
  const { cells, before = [], window, nowMs } = facts;
  const { fromMs } = lastOf(window, nowMs);
  if (fromMs === window.fromMs) return facts;
  const within = (startMs: number) =>
    [...before, ...cells].filter(({ hour }) => hourMs(hour) >= startMs && hourMs(hour) < startMs + DAY_MS);
  return { ...facts, window: { ...window, fromMs }, cells: within(fromMs), before: within(fromMs - DAY_MS) };
}

async function truthOf({ storage, environment }: AskedStack, { fromMs, toMs }: TimeWindow) {
  const { WORK_BUCKET: bucket, GROUND_TRUTH: settings, SHADOW_VARIANTS: shadow } = environment;
  const hours = await labeledHours(storage, bucket, { from: hourOf(fromMs), to: hourOf(toMs) });
  const read = () => readLabeled(storage, bucket, hours);
  const measured = (by?: 'variant') => measureTruth(read, settings, { by, shadow });
  return hours.length === 0 ? undefined : { all: await measured(), byVariant: await measured('variant') };
}

/** The name of an error, a class or a group. A longer text may say anything. */
const NAME = /^[\w.:*+-]{1,40}$/;
const nameIn = (text: string): string => (NAME.test(text) ? text : '(text)');

/** Names of counts are their keys, at any depth. @param known words of the settings, such as a scorer's categories */
function inNames<T extends object>(counts: T, known: ReadonlySet<string>): T {
  const all: Record<string, unknown> = {};
  for (const [name, count] of Object.entries(counts)) {
    if (typeof count === 'object') all[name] = inNames(count, known);
    else addTree(all, { [known.has(name) ? name : nameIn(name)]: count });
  }
  return all as T;
}

/** The fields of figures that say what a request or a reply said. */
const SAID = new Set(['class', 'label', 'predicted', 'positive', 'value']);
const truthInNames = <T>(truth: T): T =>
  JSON.parse(JSON.stringify(truth), (key, value) =>
    SAID.has(key) && typeof value === 'string' ? nameIn(value) : value,
  );
