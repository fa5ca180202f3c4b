/** Decides which captures are no traffic of the endpoint's users: replays, and those of rules and of excluded windows. */

import { capturePathOf } from '../../captures/files/capture-path.ts';
import { chosenId } from '../../captures/trace/build.ts';
import type { Capture, NotTraffic } from '../../captures/types.ts';
import type { Work } from '../../core/aws/storage.ts';
import type { TrafficRule } from '../../core/settings/schema.ts';
import { matchesGlob } from '../../core/values/glob.ts';
import { isExcluded, readExcluded, WINDOW } from '../../ledger/excluded.ts';
import { Marks } from '../../replay/marks/believe.ts';

type Decide = (capture: Capture, key: string) => Promise<NotTraffic | undefined>;

/** Reads the windows, once for all captures of a chunk. @param rules those of `NOT_TRAFFIC` */
export async function notTrafficIn(work: Work, rules: readonly TrafficRule[]): Promise<Decide> {
  const windows = await readExcluded(work);
  const marks = new Marks(work.storage, work.workBucket);
  return async (capture, key) => {
    const run = await marks.runOf(capture);
    if (run !== undefined) return { by: 'replay', name: run };
    const { variant } = capturePathOf(key);
    const id = chosenId(capture);
    const attributes = new Map(Object.entries(capture.attributes));
    const isMet = (rule: TrafficRule): boolean =>
      has(variant, rule.variant) &&
      has(id, rule.inferenceId) &&
      Object.entries(rule.attributes ?? {}).every(([name, pattern]) => has(attributes.get(name), pattern));
    const rule = rules.find(isMet);
    if (rule !== undefined) return { by: 'rule', name: `rule ${rule.name}` };
    const about = { timeMs: capture.inferenceTimeMs, variant };
    return isExcluded(windows, about, (pattern) => has(id, pattern)) ? { by: 'window', name: WINDOW } : undefined;
  };
}

/** Whether a text has the form of a pattern, if there is one. */
const has = (text: string | undefined, pattern: string | undefined): boolean =>
  pattern === undefined || (text !== undefined && matchesGlob(pattern, text));
