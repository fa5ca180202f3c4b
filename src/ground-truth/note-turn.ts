/**
 * The turn to write labels to MLflow: one run has it at a time, since MLflow cannot write an assessment only if it is absent. A run
 * that comes meanwhile leaves its labels to the run that has it.
 */
import type { BudgetTable } from '../limits/table.ts';

const SCOPE = 'ground-truth#note';
/** DynamoDB deletes the item this long after the turn. */
const KEPT_MS = 86_400_000;

export class NoteTurn {
  readonly #table: BudgetTable;
  readonly #run: string;

  constructor(table: BudgetTable, run: string) {
    this.#table = table;
    this.#run = run;
  }

  /**
   * Takes or renews the turn.
   *
   * @param untilMs when it ends if the run is killed, epoch milliseconds
   * @returns another run that has the turn. It learns that there are more labels, and does not end before it has noted them
   */
  async take(untilMs: number): Promise<string | undefined> {
    for (;;) {
      const now = Date.now();
      const taken = await this.#table.update({
        scope: SCOPE,
        expression: 'SET #by = :by, #until = :until, #ttl = :ttl',
        condition: '(attribute_not_exists(#by) OR #by = :by OR #until <= :now)',
        values: { by: this.#run, now, until: untilMs, ttl: Math.ceil((untilMs + KEPT_MS) / 1000) },
      });
      if (taken !== undefined) return undefined;
      const other = await this.#table.update({
        scope: SCOPE,
        expression: 'SET #more = :more',
        condition: '#until > :now',
        values: { more: 1, now },
        returns: 'ALL_OLD',
      });
      if (other !== undefined) return other.by?.S;
      // Its turn has just ended.
    }
  }

  /** Ends the turn after all labels were noted. @returns `false` if there are more: the turn goes on */
  async end(): Promise<boolean> {
    const mine = '#by = :by';
    const ended = await this.#table.update({
      scope: SCOPE,
      expression: 'SET #until = :ended',
      condition: `${mine} AND attribute_not_exists(#more)`,
      values: { by: this.#run, ended: 0 },
    });
    if (ended !== undefined) return true;
    const values = { by: this.#run };
    // Not mine any more if the run was away for too long. Who has taken it notes all labels.
    return (
      (await this.#table.update({ scope: SCOPE, expression: 'REMOVE #more', condition: mine, values })) === undefined
    );
  }

  /** Ends the turn after a failure. The marks of the labels remain for the next run. */
  async giveUp(): Promise<void> {
    const values = { by: this.#run, ended: 0 };
    await this.#table.update({ scope: SCOPE, expression: 'SET #until = :ended', condition: '#by = :by', values });
  }
}
