/** Asks the judge about labeled items that have no verdict yet. */

import { messageText } from '../../captures/reply-text.ts';
import type { Capture } from '../../captures/types.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { chatCapture } from '../../judge/chat-capture.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import { applicability } from '../../judge/scorers/applicability.ts';
import { addSpend, addUsd, emptySpend } from '../../judge/spend.ts';
import type { Judge, JudgeScorer, ScorerExample, Verdict } from '../../judge/types.ts';
import { OwnLimit } from '../../limits/spending-limit.ts';
import type { LabeledItem, LabeledVerdict, Unanswered } from './types.ts';

type LabeledExchange = Pick<LabeledItem, 'messages' | 'reply' | 'tools'>;

export const captureOf = ({ messages, reply, tools }: LabeledExchange): Capture =>
  chatCapture(messages, [reply], tools);

const lastUserText = ({ messages }: LabeledExchange): string => {
  const last = messages.findLast(({ role }) => role === 'user') ?? messages.at(-1);
  return last === undefined ? '' : messageText(last);
};

function replyText({ reply }: LabeledExchange): string {
  const calls = (reply.tool_calls ?? []).map((call) => `${call.function.name} ${call.function.arguments}`);
  return [messageText(reply), ...calls].filter((text) => text !== '').join('\n');
}

type Given = Pick<Extract<Verdict, { outcome: 'verdict' }>, 'value' | 'rationale'>;

function labeledVerdict(item: LabeledItem, { value: verdict, rationale }: Given, judge: string): LabeledVerdict {
  const { messages: _, tools: __, ...facts } = item;
  const texts = { request: lastUserText(item), reply: replyText(item) };
  const agrees = item.label === verdict;
  return { ...facts, ...texts, verdict, verdictRationale: rationale || undefined, judge, agrees };
}

/** Returns the items with a verdict in the file. */
export const givenPairs = (items: readonly LabeledItem[]): LabeledVerdict[] =>
  items.flatMap((item) => {
    const { verdict: value, verdictRationale: rationale = '', judge = 'as given in the file' } = item;
    return value === undefined ? [] : [labeledVerdict(item, { value, rationale }, judge)];
  });

interface AskOptions {
  judge: Judge;
  /** The active scorers. */
  scorers: readonly JudgeScorer[];
  /**
   * `production`: ask every scorer that applies to an exchange, as the pipeline does, and compare the labeled scorers.
   * `labelled`: ask only the labeled scorers, which costs less.
   */
  ask: 'production' | 'labelled';
  /** Maximum US dollars to spend. If `undefined`, there is no limit. */
  budgetUsd?: number | undefined;
  progress?: (done: number, of: number) => void;
}

/** Exchanges in flight. The judge's own limiter decides how many calls are made. */
const EXCHANGES_AT_ONCE = 16;

type Exchange = ReturnType<typeof exchangesOf>[number];

/** Groups items by exchange, which is sent once for all of its items. */
function exchangesOf(items: readonly LabeledItem[]) {
  const groups = Map.groupBy(items, ({ messages, reply, tools }) => JSON.stringify([messages, reply, tools ?? null]));
  return [...groups.values()].map((group) => ({ capture: captureOf(group[0] as LabeledItem), items: group }));
}

/** Returns the scorers to ask about an exchange. */
function scorersToAsk({ capture, items }: Exchange, { scorers, ask }: Pick<AskOptions, 'scorers' | 'ask'>) {
  const labeled = new Set(items.map(({ scorer }) => scorer));
  return scorers.filter(
    (scorer) => (ask === 'production' || labeled.has(scorer.name)) && 'judge' in applicability(capture, scorer),
  );
}

/** Whether the judge sees the case as an example. Such a case cannot show how it judges new cases. */
const isExample = (examples: readonly ScorerExample[] | undefined, item: LabeledItem): boolean =>
  examples?.some(
    ({ request = lastUserText(item), reply }) => reply === replyText(item) && request === lastUserText(item),
  ) === true;

const leftOut = ({ id, scorer }: LabeledItem, reason: string, message: string) => ({ id, scorer, reason, message });

/** Returns why an item cannot show how the judge judges. */
function whyLeftOut(capture: Capture, item: LabeledItem, scorer: JudgeScorer): Unanswered | undefined {
  if (isExample(scorer.examples, item)) {
    return leftOut(item, 'shownAsExample', 'the judge is shown this case as an example');
  }
  const applies = applicability(capture, scorer);
  if ('judge' in applies) return undefined;
  return leftOut(item, applies.notJudgeable, 'the scorer does not apply to this exchange');
}

/** @throws the judge's error if it cannot be reached */
export async function askAll(items: readonly LabeledItem[], options: AskOptions) {
  const { judge, budgetUsd } = options;
  const limit = budgetUsd === undefined ? undefined : new OwnLimit(budgetUsd);
  const total = emptySpend();
  const outcomes = new Map<LabeledItem, LabeledVerdict | Unanswered>();
  const scorerOf = (item: LabeledItem) => options.scorers.find(({ name }) => name === item.scorer) as JudgeScorer;
  const outcomeOf = (item: LabeledItem, verdict: Verdict | undefined, isHeld: boolean) => {
    if (verdict?.outcome === 'verdict') {
      const name = `${verdict.source ?? judge.sourceId} version ${scorerOf(item).version}`;
      return labeledVerdict(item, verdict, name);
    }
    if (verdict !== undefined) return leftOut(item, verdict.error.code, verdict.error.message);
    return isHeld
      ? leftOut(item, 'held', `the budget of ${budgetUsd} US dollars has no room for it`)
      : leftOut(item, 'noAnswer', 'the judge left it out');
  };
  const ask = async ({ capture, items: own }: Exchange): Promise<void> => {
    for (const item of own) {
      const why = whyLeftOut(capture, item, scorerOf(item));
      if (why !== undefined) outcomes.set(item, why);
    }
    const open = own.filter((item) => !outcomes.has(item));
    if (open.length === 0) return;
    let isHeld = false;
    const scorers = scorersToAsk({ capture, items: open }, options);
    const { verdicts, spend } = await judge.judge(capture, scorers, undefined, { limit }).catch((error: unknown) => {
      if (!(error instanceof JudgeHeld)) throw error;
      isHeld = true;
      return answeredBefore(error);
    });
    addSpend(total, spend);
    const verdictOf = ({ scorer: name }: LabeledItem) => verdicts.find(({ scorer }) => scorer === name);
    for (const item of open) outcomes.set(item, outcomeOf(item, verdictOf(item), isHeld));
  };
  const exchanges = exchangesOf(items);
  let done = 0;
  await forEachConcurrently(EXCHANGES_AT_ONCE, exchanges, async (exchange) => {
    await ask(exchange);
    done += 1;
    options.progress?.(done, exchanges.length);
  });
  const { calls, inputTokens, outputTokens, usd } = total;
  const found = items.flatMap((item) => outcomes.get(item) ?? []);
  return {
    pairs: found.filter((outcome) => 'verdict' in outcome),
    unanswered: found.filter((outcome) => 'reason' in outcome),
    spend: { calls, inputTokens, outputTokens, usd },
  };
}

/** Returns the worst case of asking about these items in US dollars; `null` if the price is unknown. */
export const mostUsd = (items: readonly LabeledItem[], options: Pick<AskOptions, 'judge' | 'scorers' | 'ask'>) =>
  exchangesOf(items)
    .map((exchange) => options.judge.maxCostUsd(exchange.capture, scorersToAsk(exchange, options)))
    .reduce(addUsd, 0);
