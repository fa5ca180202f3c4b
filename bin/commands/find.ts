/** `inference-monitor find`: finds conversations by ids that people know, and shows their outcome. */

import { InvalidArgumentError } from 'commander';
import { parentSpanOf } from '../../src/captures/record/traceparent.ts';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { many, time } from '../../src/core/text/figure-text.ts';
import { block, bold, exact, facts, type Page } from '../../src/core/text/page.ts';
import { excerpt } from '../../src/core/text/terminal-text.ts';
import { OUTCOMES } from '../../src/ledger/what-became.ts';
import { command, numbers, option, options, parsed } from '../cli/options.ts';
import { type About, print } from '../cli/output.ts';
import { commandText } from '../cli/run-text.ts';
import { openStack, stackOptions } from '../cli/stack.ts';
import { windowOfFlags, windowOptions } from '../cli/window.ts';
import { type FoundTrace, findTraces } from '../operate/find-traces.ts';
import { condition } from './dataset.ts';

/** By default, inference ids are kept for as long as labels may arrive. */
const [DEFAULT_LIMIT, MOST, OF_IDS, OF_OTHERS] = [20, 1000, '30d', '1d'];

/** Returns the id of the application's trace. It is stored in lower case. */
function parentTrace(given: string): string {
  const text = given.toLowerCase();
  const id = parentSpanOf(text)?.traceId ?? text;
  if (/^[\da-f]{32}$/.test(id)) return id;
  throw new InvalidArgumentError(
    'expected a traceparent such as 00-<32 hex digits>-<16 hex digits>-01, or its 32 hex digits',
  );
}

const OPTIONS = options(
  option('--id <id>', 'of an inference or a trace'),
  option('--user <id>', 'as it stands in the trace, where it may be a pseudonym'),
  option('--session <id>', 'as it stands in the trace'),
  option('--traceparent <id>', "of the application's trace: 00-…, or its 32 hex digits", parentTrace),
  option('--scorer <conditions...>', 'with a verdict of one of these, or with its value, or held or failed', condition),
  ...windowOptions(),
  option('--limit <count>', 'at most this many of the newest', parsed(numbers.from(1, MOST), DEFAULT_LIMIT)),
  ...stackOptions(),
);

/** Output of `--json`. `more`: `--limit` leaves out older traces that also meet the conditions. */
export type FindOutput = Awaited<ReturnType<typeof findTraces>>;

export type Output = About & FindOutput;

export default command('find', OPTIONS, async (flags) => {
  const { id, user, session, traceparent: parentTraceId, scorer: verdicts, from, to, limit } = flags;
  if ([id, user, session, parentTraceId, verdicts].every((one) => one === undefined)) {
    const expected = '--id, --user, --session, --traceparent or --scorer';
    throw new PermanentError('InvalidCommandLine', 'Nothing says what to find', { got: 'no condition', expected });
  }
  const nowMs = Date.now();
  const initial = id === undefined ? OF_OTHERS : OF_IDS;
  const { fromMs = 0, toMs = nowMs } = windowOfFlags({ from: from ?? initial, to }, nowMs);
  const { work, flag, about } = await openStack(flags);
  const found = await findTraces(work, { id, user, session, parentTraceId, verdicts, fromMs, toMs, limit });
  print<FindOutput>(found, flags.json, [...found.traces.map((one) => tracePage(one, flag)), end(found, flag)], about);
});

const MAX_ID_CHARS = 80;

function tracePage(trace: FoundTrace, flag?: string): Page[number] {
  const { traceId, time: at, variant, user, session } = trace;
  const idOf = (text?: string) => text && excerpt(text, MAX_ID_CHARS);
  return block(bold(`${time(at)} ${variant}`), [
    facts({ user: idOf(user), session: idOf(session) }),
    fate(trace),
    exact(commandText(['open', traceId], flag)),
  ]);
}

function end({ traces, more }: FindOutput, flag?: string): Page[number] {
  const words = ['dataset', '--filter', "trace.text LIKE '%frost%'", '--out', 'found.jsonl'];
  return block(
    `${many(traces.length, 'trace')}${more ? ' and more: use --limit, or --to for older ones' : ''}`,
    'The ledger has no texts. To find words in requests and replies:',
    [exact(commandText(words, flag))],
  );
}

/** Describes the outcome of a line, for example `traced by run r1; safety held by the budget; fluency yes`. */
function fate({ outcome, run, verdicts }: FoundTrace): string {
  const order = ['held', 'failed', 'given', 'notJudged'];
  const sorted = verdicts.toSorted((a, b) => order.indexOf(a.state) - order.indexOf(b.state));
  return [
    `${OUTCOMES[outcome].says} ${outcome === 'traced' ? 'by' : 'in'} run ${run}`,
    ...sorted.map(verdictText),
  ].join('; ');
}

function verdictText({ scorer, state, value, reason }: FoundTrace['verdicts'][number]): string {
  if (state === 'given') return `${scorer} ${value}`;
  if (state === 'held') return `${scorer} held by ${reason ?? 'the budget'}`;
  return `${scorer} ${state === 'failed' ? 'failed' : 'not judged'}${reason ? ` (${reason})` : ''}`;
}
