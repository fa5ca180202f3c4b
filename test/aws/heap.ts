/** Reads from the functions' logs whether V8 took the limits of the heap that the stack sets. */
import { setTimeout as sleep } from 'node:timers/promises';
import type { AwsClients } from '../../bin/operate/aws-clients.ts';
import { callAws } from '../../src/core/aws/aws-json.ts';
import { resourceNames } from '../../src/core/contract/names.ts';
import type { heapFigures } from '../../src/core/process/heap.ts';
import { HEAP_MESSAGE } from '../../src/core/process/logging.ts';

/** The line that a function logs at its cold start. */
type HeapLine = ReturnType<typeof heapFigures>;

/** The functions of every run with evaluation. */
const FUNCTIONS = ['starter', 'planner', 'evaluator', 'summarizer'] as const;

/** A process of Lambda lives for a few hours at most, so its cold start is not older. */
const SINCE_MS = 24 * 3_600_000;
const POLL_MS = 2_000;
/** CloudWatch shows a line a few seconds after it was written. */
const LIMIT_MS = 60_000;

/**
 * Waits until each function of a run has logged its heap.
 *
 * @returns the newest line by function; a function without one is missing
 */
export async function readHeapLines(
  { lambda }: AwsClients,
  prefix: string,
  limitMs = LIMIT_MS,
): Promise<Map<string, HeapLine>> {
  const names = resourceNames(prefix);
  const found = new Map<string, HeapLine>();
  const deadline = Date.now() + limitMs;
  for (;;) {
    for (const name of FUNCTIONS) {
      const line = found.get(name) ?? (await newestLine(lambda, `/aws/lambda/${names[name]}`));
      if (line) found.set(name, line);
    }
    if (found.size === FUNCTIONS.length || Date.now() > deadline) return found;
    await sleep(POLL_MS);
  }
}

async function newestLine(lambda: AwsClients['lambda'], logGroupName: string): Promise<HeapLine | undefined> {
  const startTime = Date.now() - SINCE_MS;
  type Page = { events?: { message: string }[]; nextToken?: string };
  let last: string | undefined;
  let nextToken: string | undefined;
  // A page may be empty although others follow.
  do {
    const input = { logGroupName, startTime, filterPattern: `"${HEAP_MESSAGE}"`, nextToken };
    const page = await callAws<Page>(lambda, 'logs', 'FilterLogEvents', input);
    last = page.events?.at(-1)?.message ?? last;
    nextToken = page.nextToken;
  } while (nextToken);
  return last === undefined ? undefined : (JSON.parse(last.slice(last.indexOf('{'))) as HeapLine);
}

/** @returns a sentence, and whether every function was found with the limit that the stack sets */
export function judgeHeap(lines: ReadonlyMap<string, HeapLine>): { ok: boolean; found: string } {
  const texts = FUNCTIONS.map((name) => {
    const line = lines.get(name);
    if (line === undefined) return `${name} logged nothing`;
    const limit = `${name} ${line.heapLimitMb} MB`;
    return line.ignored
      ? `${limit} instead of ${line.heapAskedMb}, by Node's command line: ${line.commandLine.join(' ') || 'no flags'}`
      : limit;
  });
  return { ok: FUNCTIONS.every((name) => lines.get(name)?.ignored === false), found: texts.join(', ') };
}
