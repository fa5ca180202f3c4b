/** What tests can say and ask about their requests to emulated AWS. `environment.ts` checks them. */
import type { Violation } from './rules.ts';

export interface AwsRequests {
  /**
   * Lets this file make requests that break a rule on purpose. A file that makes none fails.
   *
   * @param operation such as `s3:PutObject`
   * @param where the member's path, as in a violation
   */
  allow(operation: string, where: string, reason: string): void;
  /** Counts the requests that this file has made and that were checked, by operation. */
  counts(): Promise<Record<string, number>>;
  /** Returns the broken rules since the last test ended. */
  violations(): Promise<Violation[]>;
}

/** The requests of this test file. */
export const awsRequests = (globalThis as unknown as { awsRequests: AwsRequests }).awsRequests;
