/** Has the judge answer labelled items that have no verdict yet. */
import type { Capture } from '../formats/types.ts';
import { OwnLimit } from '../judge/budget/spending-limit.ts';
import { answeredBefore, JudgeHeld } from '../judge/errors.ts';
import { applicability } from '../judge/scorers/applicability.ts';
import { messageText } from '../judge/scorers/code/text.ts';
import type { Judge, JudgeScorer, ScorerExample, Verdict } from '../judge/types.ts';
import { forEachConcurrently } from '../shared/concurrency.ts';
import type { CalibrationReport, LabeledItem, LabeledVerdict, Unanswered } from './types.ts';

/** The item as the decoder would have made it of a captured chat call. */
export function captureOf({ messages, reply, tools }: Pick<LabeledItem, 'messages' | 'reply' | 'tools'>): Capture {
  const request = { messages, tools };
  const response = { choices: [{ index: 0, message: reply }] };
  const payload = (value: unknown) => {
    const text = JSON.stringify(value);
    const bytes = Buffer.byteLength(text);
    return { contentType: 'application/json', encoding: 'JSON', kind: 'json' as const, value, text, bytes };
  };
  return {
    inferenceTimeMs: 0,
    timeSource: 's3-object-time',
    format: 'chat',
    request: payload(request),
    response: payload(response),
    conversation: { messages, replies: [reply], tools, parameters: {}, jsonRequested: false, finishReasons: [] },
    attributes: {},
    notes: [],
  };
}

const lastUserText = ({ messages }: Pick<LabeledItem, 'messages'>): string => {
  const last = messages.findLast(({ role }) => role === 'user') ?? messages.at(-1);
  return last === undefined ? '' : messageText(last);
};

function replyText({ reply }: Pick<LabeledItem, 'reply'>): string {
  const calls = (reply.tool_calls ?? []).map((call) => `${call.function.name} ${call.function.arguments}`);
  return [messageText(reply), ...calls].filter((text) => text !== '').join('\n');
}

/** Label and verdict side by side. */
function pairOf(
  item: LabeledItem,
  verdict: Pick<Extract<Verdict, { outcome: 'verdict' }>, 'value' | 'rationale'>,
  judge: string,
): LabeledVerdict {
  return {
    id: item.id,
    scorer: item.scorer,
    label: item.label,
    labelRationale: item.labelRationale,
    verdict: verdict.value,
    ...(verdict.rationale === '' ? {} : { verdictRationale: verdict.rationale }),
    agrees: item.label === verdict.value,
    ...(item.traceId === undefined ? {} : { traceId: item.traceId }),
    judge,
    request: lastUserText(item),
    reply: replyText(item),
  };
}

interface AskOptions {
  judge: Judge;
  /** The scorers in force. */
  scorers: readonly JudgeScorer[];
  /**
   * `production`: every scorer that applies is asked of an exchange, as the pipeline asks, and the labelled ones are
   * compared; `labelled`: only those are asked, which costs less.
   */
  ask: 'production' | 'labelled';
  /** Most US dollars to be spent; `undefined`: no limit. */
  budgetUsd?: number | undefined;
  /** Exchanges under way at once; the judge's own limiter decides how many calls are made. */
  atOnce?: number;
  progress?: (done: number, of: number) => void;
  signal?: AbortSignal;
}

interface Asked {
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  spend: NonNullable<CalibrationReport['spend']>;
}

const EXCHANGES_AT_ONCE = 16;

interface Exchange {
  capture: Capture;
  items: LabeledItem[];
}

/** Items about the same exchange: it is sent once for all of them. */
function exchangesOf(items: readonly LabeledItem[]): Exchange[] {
  const groups = Map.groupBy(items, ({ messages, reply, tools }) => JSON.stringify([messages, reply, tools ?? null]));
  return [...groups.values()].map((group) => ({ capture: captureOf(group[0] as LabeledItem), items: group }));
}

/** A case that the judge is shown as an example says nothing about how it judges new ones. */
const isExample = (examples: readonly ScorerExample[] | undefined, item: LabeledItem): boolean =>
  examples?.some(
    (example) => example.reply === replyText(item) && (example.request ?? lastUserText(item)) === lastUserText(item),
  ) === true;

/** @throws what the judge throws when it cannot be reached: nothing is made up for it */
export async function askAll(items: readonly LabeledItem[], options: AskOptions): Promise<Asked> {
  const { judge, scorers, budgetUsd } = options;
  const byName = new Map(scorers.map((scorer) => [scorer.name, scorer]));
  const result: Asked = { pairs: [], unanswered: [], spend: { calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 } };
  const leaveOut = (item: LabeledItem, reason: string, message: string): void => {
    result.unanswered.push({ id: item.id, scorer: item.scorer, reason, message });
  };
  const judgeName = (scorer: JudgeScorer): string => `${judge.sourceId} version ${scorer.version}`;

  const due = items.filter((item) => {
    if (!isExample(byName.get(item.scorer)?.examples, item)) return true;
    leaveOut(item, 'shownAsExample', 'the judge is shown this case as an example');
    return false;
  });
  const exchanges = exchangesOf(due);
  const limit = budgetUsd === undefined ? undefined : new OwnLimit(budgetUsd);
  let done = 0;

  const assess = async ({ capture, items: group }: Exchange): Promise<void> => {
    const wanted = new Set(group.map(({ scorer }) => scorer));
    for (const item of group) {
      const applies = applicability(capture, byName.get(item.scorer) as JudgeScorer);
      if ('judge' in applies) continue;
      wanted.delete(item.scorer);
      leaveOut(item, applies.notJudgeable, 'the scorer does not apply to this exchange');
    }
    if (wanted.size === 0) return;
    const asked = scorers.filter(
      (scorer) =>
        wanted.has(scorer.name) || (options.ask === 'production' && 'judge' in applicability(capture, scorer)),
    );
    const open = group.filter(({ scorer }) => wanted.has(scorer));
    let held = false;
    const { verdicts, spend } = await judge.judge(capture, asked, options.signal, { limit }).catch((error: unknown) => {
      if (!(error instanceof JudgeHeld)) throw error;
      held = true;
      return answeredBefore(error);
    });
    result.spend.calls += spend.calls;
    result.spend.inputTokens += spend.inputTokens;
    result.spend.outputTokens += spend.outputTokens;
    result.spend.usd = result.spend.usd === null || spend.usd === null ? null : result.spend.usd + spend.usd;
    const answers = new Map(verdicts.map((verdict) => [verdict.scorer, verdict]));
    for (const item of open) {
      const verdict = answers.get(item.scorer);
      if (verdict?.outcome === 'verdict') {
        result.pairs.push(pairOf(item, verdict, judgeName(byName.get(item.scorer) as JudgeScorer)));
      } else if (verdict === undefined && held) {
        leaveOut(item, 'held', `the budget of ${budgetUsd} US dollars leaves no room for it`);
      } else {
        leaveOut(item, verdict?.error.code ?? 'noAnswer', verdict?.error.message ?? 'the judge left it out');
      }
    }
  };

  await forEachConcurrently(options.atOnce ?? EXCHANGES_AT_ONCE, exchanges, async (exchange) => {
    await assess(exchange);
    done += 1;
    options.progress?.(done, exchanges.length);
  });
  return inOrder(items, result);
}

/** Answers come in any order; a report has the items' own. */
function inOrder(items: readonly LabeledItem[], result: Asked): Asked {
  const place = new Map(items.map(({ id }, index) => [id, index]));
  const byPlace = (a: { id: string }, b: { id: string }): number => (place.get(a.id) ?? 0) - (place.get(b.id) ?? 0);
  return { ...result, pairs: result.pairs.sort(byPlace), unanswered: result.unanswered.sort(byPlace) };
}

/** Items whose verdict is in the file already. */
export function givenPairs(items: readonly LabeledItem[]): LabeledVerdict[] {
  return items.flatMap((item) =>
    item.verdict === undefined
      ? []
      : [
          pairOf(
            item,
            { value: item.verdict, rationale: item.verdictRationale ?? '' },
            item.judge ?? 'as given in the file',
          ),
        ],
  );
}

/** What asking about these items will cost at most, in US dollars; `null` when the price is not known. */
export function mostUsd(
  items: readonly LabeledItem[],
  options: Pick<AskOptions, 'judge' | 'scorers' | 'ask'>,
): number | null {
  let total = 0;
  for (const { capture, items: group } of exchangesOf(items)) {
    const wanted = new Set(group.map(({ scorer }) => scorer));
    const asked = options.scorers.filter(
      (scorer) =>
        (options.ask === 'production' || wanted.has(scorer.name)) && 'judge' in applicability(capture, scorer),
    );
    const most = options.judge.maxCostUsd(capture, asked);
    if (most === null) return null;
    total += most;
  }
  return total;
}
