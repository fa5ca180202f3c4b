/** Asks the model within a spending limit: reserves the worst case of a question first, then settles its cost. */
import { chargeOf } from '../../limits/spending-limit.ts';
import { CallFailure } from '../errors.ts';
import type { PriceOfCall } from '../pricing/call-amounts.ts';
import { priceUnknown } from '../pricing/prices.ts';
import { type AskSize, askSize } from '../pricing/request-tokens.ts';
import type { Session } from '../session.ts';
import { INPUT_MARGIN } from '../tokens.ts';
import type { CallUsage } from '../types.ts';
import type { Answered, ModelCaller, Question } from './model-caller.ts';

export class PaidCaller {
  readonly caller: ModelCaller;
  readonly price: PriceOfCall;

  constructor(caller: ModelCaller, price: PriceOfCall = () => null) {
    this.caller = caller;
    this.price = (usage) => {
      const usd = price(usage);
      return usd === null ? null : chargeOf(usd);
    };
  }

  /** Returns the worst case in US dollars; `null` if the price is unknown. */
  mostUsd({ inputTokens, maxOutputTokens }: AskSize): number | null {
    const input = Math.ceil(inputTokens * INPUT_MARGIN);
    // Writing to the prompt cache can cost more than plain input.
    const plain = this.price({ inputTokens: input, outputTokens: maxOutputTokens });
    const cached = this.price({ inputTokens: 0, outputTokens: maxOutputTokens, cacheWriteInputTokens: input });
    return plain === null || cached === null ? null : Math.max(plain, cached);
  }

  /**
   * Asks the question if the limit has room for its worst case, regardless of payments for other questions. An attempt
   * that may have been billed without an answer is charged at the worst case, and the next attempt needs room again.
   * @throws PermanentError `JudgePriceUnknown` if there is a limit; CallFailure of any kind but `unsupported`, or an
   *   exception that the capture triggers
   */
  async ask(question: Question, session: Session, signal: AbortSignal | undefined): Promise<Answered> {
    const { capture, scorers, maxTokens, prompt, within } = question;
    const options = { maxTokens, maxRecordTokens: prompt.maxRecordTokens, properties: this.caller.properties };
    const size = within('the size of the prompt', () => askSize(capture, scorers, options));
    const reserve = async () => {
      const { limit } = session.money;
      if (limit === undefined) return undefined;
      const mostUsd = this.mostUsd(size);
      if (mostUsd === null) throw priceUnknown(this.caller.transport.sourceId);
      const made = await limit.reserve(mostUsd);
      if (made === 'held') throw new CallFailure('held', 'The budget leaves no room for the call');
      return made;
    };
    let reservation = await reserve();
    const settle = async (usage: CallUsage | undefined): Promise<void> => {
      const made = reservation;
      reservation = undefined;
      // A failed report is repeated with a later call or when the limit is closed, which then throws.
      await made?.settle(usage === undefined ? 0 : (this.price(usage) ?? 0)).catch(() => {});
    };
    try {
      const lost = async (usage: CallUsage): Promise<void> => {
        session.charge(usage, scorers);
        await settle(usage);
        reservation = await reserve();
      };
      const answered = await this.caller.ask(question, signal, lost);
      await settle(answered.answer.usage);
      return { ...answered, likelyUsd: this.price({ inputTokens: size.inputTokens, outputTokens: size.outputTokens }) };
    } catch (error) {
      const usage = error instanceof CallFailure ? error.usage : undefined;
      if (usage !== undefined) session.charge(usage, scorers);
      await settle(usage);
      throw error;
    }
  }
}
