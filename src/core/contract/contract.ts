/**
 * The number of the contract between the parts of a stack.
 *
 * A deployment replaces all functions at once. What began before meets them with the payloads, manifests, plans and receipts
 * of the old ones: running executions, and retries for 90 days. Raise the number if the new functions could misread one of
 * those. They then refuse it by name, before they write or send anything. Quarantined lines are not under the number, since
 * they can be retried for a year.
 */
import { PermanentError } from '../errors/errors.ts';

export const CONTRACT = 4;

/** What was written before the number existed fulfills contract 1. */
const FIRST = 1;

/**
 * Checks that something was written under this contract.
 *
 * @param where the place of what was written
 * @param command that completes what was begun, if it is known
 * @throws PermanentError `ContractChanged`
 */
export function assertContract(
  { contract = FIRST }: { contract?: number | undefined },
  where: string,
  command?: string,
): void {
  if (contract === CONTRACT) return;
  const remedy = command === undefined ? 'start it again with its own input' : `complete it with "${command}"`;
  throw new PermanentError(
    'ContractChanged',
    `The stack was deployed in a version that cannot continue what an earlier one began; ${remedy}`,
    { got: `contract ${contract}`, expected: `contract ${CONTRACT}`, where },
  );
}
