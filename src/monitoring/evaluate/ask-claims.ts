/** Claims of the requests to the judge: of the chunks of a run with the same request, one asks. */
import type { ChunkRequest } from '../../core/contract/payloads.ts';
import { asNumber, BudgetTable, tableClient } from '../../limits/table.ts';

/** Another chunk’s claim. */
interface Claim {
  chunk: number;
  /** When its function has certainly ended, epoch milliseconds. */
  untilMs: number;
}

/** DynamoDB deletes a claim this long after its function has ended. By then, no chunk of the run asks any more. */
const KEPT_SECONDS = 14 * 86_400;

export class AskClaims {
  readonly #table: BudgetTable;
  readonly #scope: string;
  readonly #mine: Claim;

  /**
   * @param kind requests of batch jobs are claimed separately: no function waits for their answers
   * @param mine the chunk that asks, and when its function has certainly ended
   */
  constructor(table: BudgetTable, kind: 'ask' | 'batch', run: string, mine: Claim) {
    this.#table = table;
    this.#scope = `${kind}#${run}#`;
    this.#mine = mine;
  }

  /**
   * Claims a request, also if an earlier attempt at this chunk has claimed it.
   *
   * @param expired a chunk whose claim is replaced
   * @returns the claim of another chunk; `undefined` when this chunk may ask
   */
  async take(ask: string, expired?: number): Promise<Claim | undefined> {
    const { chunk, untilMs } = this.#mine;
    const scope = `${this.#scope}${ask}`;
    const made = await this.#table.update({
      scope,
      expression: 'SET #chunk = :chunk, #until = :until, #ttl = :ttl',
      condition: '(attribute_not_exists(#chunk) OR #chunk = :chunk OR #chunk = :expired)',
      values: {
        chunk,
        until: untilMs,
        ttl: Math.ceil(untilMs / 1000) + KEPT_SECONDS,
        expired: expired ?? chunk,
      },
    });
    if (made !== undefined) return undefined;
    const item = await this.#table.get(scope);
    // It was released in the meantime.
    if (item.chunk === undefined) return this.take(ask);
    return { chunk: asNumber(item.chunk), untilMs: asNumber(item.until) };
  }

  /** Lets other chunks ask at once, since this one does not ask or got no answer. A failure only makes them wait. */
  async release(ask: string): Promise<void> {
    const { chunk } = this.#mine;
    await this.#table
      .update({
        scope: `${this.#scope}${ask}`,
        expression: 'REMOVE #chunk, #until',
        condition: '#chunk = :chunk',
        values: { chunk },
      })
      .catch(() => undefined);
  }
}

/**
 * Returns a function that gives the claims of a chunk.
 *
 * @returns claims for a function that has certainly ended at `untilMs`; `undefined` without a table, and for the only chunk of a
 *   run, since no other chunk can ask the same: its own attempts follow each other, and find each other's answers in the journal
 */
export function connectClaims(
  table: string | undefined,
): (request: ChunkRequest, untilMs: number) => AskClaims | undefined {
  if (table === undefined) return () => undefined;
  const claimed = new BudgetTable(tableClient(), table);
  return ({ run, chunk: { chunk, only }, phase }, untilMs) => {
    if (only) return undefined;
    const mine = { chunk, untilMs };
    return new AskClaims(claimed, phase === 'prepare' ? 'batch' : 'ask', run, mine);
  };
}
