/** Asks the judge about labeled items that have no verdict yet. */

import { messageText } from '../../captures/reply-text.ts';
import type { Capture } from '../../captures/types.ts';
import { forEachConcurrently } from '../../core/process/concurrency.ts';
import { answeredBefore, JudgeHeld } from '../../judge/errors.ts';
import { applicability } from '../../judge/scorers/applicability.ts';
import type { Judge, JudgeScorer, ScorerExample, Verdict } from '../../judge/types.ts';
import { OwnLimit } from '../../limits/spending-limit.ts';
import type { CalibrationReport, LabeledItem, LabeledVerdict, Unanswered } from './types.ts';

type LabeledExchange = Pick<LabeledItem, 'messages' | 'reply' | 'tools'>;

/** Returns the item as a captured chat call would be decoded. */
export function captureOf({ messages, reply, tools }: LabeledExchange): Capture {
  const payload = (value: unknown) => {
    const text = JSON.stringify(value);
    const bytes = Buffer.byteLength(text);
    return { contentType: 'application/json', encoding: 'JSON', kind: 'json' as const, value, text, bytes };
  };
  return {
    inferenceTimeMs: 0,
    timeSource: 's3-object-time',
    format: 'chat',
    request: payload({ messages, tools }),
    response: payload({ choices: [{ index: 0, message: reply }] }),
    conversation: { messages, replies: [reply], tools, parameters: {}, jsonRequested: false, finishReasons: [] },
    attributes: {},
    notes: [],
  };
}

const lastUserText = ({ messages }: LabeledExchange): string => {
  const last = messages.findLast(({ role }) => role === 'user') ?? messages.at(-1);
  return last === undefined ? '' : messageText(last);
};

function replyText({ reply }: LabeledExchange): string {
  const calls = (reply.tool_calls ?? []).map((call) => `${call.function.name} ${call.function.arguments}`);
  return [messageText(reply), ...calls].filter((text) => text !== '').join('\n');
}

function labeledVerdict(
  item: LabeledItem,
  { value, rationale }: Pick<Extract<Verdict, { outcome: 'verdict' }>, 'value' | 'rationale'>,
  judge: string,
): LabeledVerdict {
  const { id, scorer, label, labelRationale, traceId } = item;
  return {
    id,
    scorer,
    label,
    labelRationale,
    verdict: value,
    verdictRationale: rationale || undefined,
    agrees: label === value,
    traceId,
    judge,
    request: lastUserText(item),
    reply: replyText(item),
  };
}

/** Returns the items whose verdict is in the file. */
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
   * `production`: ask every scorer that applies to an exchange, as the pipeline does, and compare the labeled ones.
   * `labelled`: ask only the labeled ones, which costs less.
   */
  ask: 'production' | 'labelled';
  /** Maximum US dollars to spend. If `undefined`, there is no limit. */
  budgetUsd?: number | undefined;
  /** Exchanges in flight. The judge's own limiter decides how many calls are made. */
  concurrency?: number;
  progress?: (done: number, of: number) => void;
  signal?: AbortSignal;
}

export interface Asked {
  pairs: LabeledVerdict[];
  unanswered: Unanswered[];
  spend: NonNullable<CalibrationReport['spend']>;
}

const DEFAULT_CONCURRENCY = 16;

interface Exchange {
  capture: Capture;
  items: LabeledItem[];
}

/** Groups items by exchange, which is sent once for all of its items. */
function exchangesOf(items: readonly LabeledItem[]): Exchange[] {
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

/** A case that the judge is shown as an example does not show how it judges new ones. */
const isExample = (examples: readonly ScorerExample[] | undefined, item: LabeledItem): boolean =>
  examples?.some(
    ({ request = lastUserText(item), reply }) => reply === replyText(item) && request === lastUserText(item),
  ) === true;

/** Collects the verdicts on labeled exchanges, and the reasons for missing ones. */
class LabelJudging {
  readonly asked: Asked = {
    pairs: [],
    unanswered: [],
    spend: { calls: 0, inputTokens: 0, outputTokens: 0, usd: 0 },
  };
  readonly #options: AskOptions;
  readonly #limit: OwnLimit | undefined;

  constructor(options: AskOptions) {
    this.#options = options;
    this.#limit = options.budgetUsd === undefined ? undefined : new OwnLimit(options.budgetUsd);
  }

  #scorerOf(item: LabeledItem): JudgeScorer {
    return this.#options.scorers.find(({ name }) => name === item.scorer) as JudgeScorer;
  }

  #leaveOut({ id, scorer }: LabeledItem, reason: string, message: string): void {
    this.asked.unanswered.push({ id, scorer, reason, message });
  }

  /** Returns whether the item can show how the judge judges, and otherwise records the reason. */
  accepts(item: LabeledItem): boolean {
    const isShown = isExample(this.#scorerOf(item).examples, item);
    if (isShown) this.#leaveOut(item, 'shownAsExample', 'the judge is shown this case as an example');
    return !isShown;
  }

  async judge({ capture, items }: Exchange): Promise<void> {
    const open = items.filter((item) => {
      const applies = applicability(capture, this.#scorerOf(item));
      if ('notJudgeable' in applies) {
        this.#leaveOut(item, applies.notJudgeable, 'the scorer does not apply to this exchange');
      }
      return 'judge' in applies;
    });
    if (open.length === 0) return;
    const { judge, signal, budgetUsd } = this.#options;
    const scorers = scorersToAsk({ capture, items: open }, this.#options);
    let isHeld = false;
    const result = await judge.judge(capture, scorers, signal, { limit: this.#limit }).catch((error: unknown) => {
      if (!(error instanceof JudgeHeld)) throw error;
      isHeld = true;
      return answeredBefore(error);
    });
    this.#addSpend(result.spend);
    for (const item of open) {
      const verdict = result.verdicts.find(({ scorer }) => scorer === item.scorer);
      if (verdict?.outcome === 'verdict') {
        const name = `${verdict.source ?? judge.sourceId} version ${this.#scorerOf(item).version}`;
        this.asked.pairs.push(labeledVerdict(item, verdict, name));
      } else if (verdict === undefined && isHeld) {
        this.#leaveOut(item, 'held', `the budget of ${budgetUsd} US dollars has no room for it`);
      } else {
        this.#leaveOut(item, verdict?.error.code ?? 'noAnswer', verdict?.error.message ?? 'the judge left it out');
      }
    }
  }

  #addSpend({ calls, inputTokens, outputTokens, usd }: Asked['spend']): void {
    const { spend } = this.asked;
    spend.calls += calls;
    spend.inputTokens += inputTokens;
    spend.outputTokens += outputTokens;
    spend.usd = spend.usd === null || usd === null ? null : spend.usd + usd;
  }
}

/** @throws the judge's error if it cannot be reached */
export async function askAll(items: readonly LabeledItem[], options: AskOptions): Promise<Asked> {
  const judging = new LabelJudging(options);
  const exchanges = exchangesOf(items.filter((item) => judging.accepts(item)));
  let done = 0;
  await forEachConcurrently(options.concurrency ?? DEFAULT_CONCURRENCY, exchanges, async (exchange) => {
    await judging.judge(exchange);
    done += 1;
    options.progress?.(done, exchanges.length);
  });
  // Answers arrive in any order. A report has the order of the items.
  const place = new Map(items.map(({ id }, index) => [id, index]));
  const byPlace = (a: { id: string }, b: { id: string }): number => (place.get(a.id) ?? 0) - (place.get(b.id) ?? 0);
  judging.asked.pairs.sort(byPlace);
  judging.asked.unanswered.sort(byPlace);
  return judging.asked;
}

/** Returns the worst case of asking about these items in US dollars; `null` if the price is unknown. */
export function mostUsd(
  items: readonly LabeledItem[],
  options: Pick<AskOptions, 'judge' | 'scorers' | 'ask'>,
): number | null {
  const costs = exchangesOf(items).map((exchange) =>
    options.judge.maxCostUsd(exchange.capture, scorersToAsk(exchange, options)),
  );
  return costs.reduce((sum, cost) => (sum === null || cost === null ? null : sum + cost), 0);
}
