/**
 * The number of the contract between the parts of a stack.
 *
 * A deployment replaces all functions at once. Work that began earlier then reaches the new functions with payloads,
 * manifests, plans and receipts of the old functions: running executions, and retries for 90 days. Raise the number if
 * the new functions could misread any of these. They then refuse it by name, before they write or send anything.
 * Quarantined lines are exempt from the number, because they can be retried for a year.
 */
import { PermanentError } from '../errors/errors.ts';

export const CONTRACT = 1;

/**
 * Checks that an object was written under this contract.
 *
 * @param where the location of the object
 * @throws PermanentError `ContractChanged`
 */
export function assertContract({ contract }: { contract?: number | undefined }, where: string): void {
  if (contract === CONTRACT) return;
  throw new PermanentError(
    'ContractChanged',
    'The stack was deployed in a version that cannot continue what another one began; start it again with its own input',
    { got: `contract ${contract}`, expected: `contract ${CONTRACT}`, where },
  );
}
