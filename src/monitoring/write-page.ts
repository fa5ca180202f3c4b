/** Writes the page about the endpoint to the work bucket, at most once an hour, and when an objective becomes missed or met. */

import { HOUR_MS } from '../captures/files/capture-path.ts';
import { resourceNames } from '../core/contract/names.ts';
import { workKeys } from '../core/contract/work-keys.ts';
import { toNamedError } from '../core/errors/errors.ts';
import { inTime } from '../core/process/concurrency.ts';
import { logger } from '../core/process/logging.ts';
import type { AskedStack } from '../health/gather.ts';
import { makePage } from '../health/make-page.ts';

const WINDOW_MS = 30 * 24 * HOUR_MS;

interface PageDependencies extends Omit<AskedStack, 'stateMachineArn'> {
  /** The ARN of the current function, which contains partition, region and account. */
  functionArn: string;
  nowMs?: number;
  /** The run waits no longer for its page. */
  limitMs?: number;
}

/**
 * Writes the page, unless a page was written in the last hour. If several runs end at the same time, one of them writes
 * it.
 *
 * @param changed whether an objective has become missed, or met again
 */
export async function writePage(changed: boolean, deps: PageDependencies): Promise<void> {
  const { storage, environment, functionArn, nowMs = Date.now(), limitMs = 30_000 } = deps;
  const { WORK_BUCKET: bucket, STACK_PREFIX: prefix, ALARM_QUOTES: withQuotes } = environment;
  try {
    const latest = await storage.head(bucket, workKeys.report('latest'));
    if (!changed && latest !== undefined && nowMs - latest.lastModifiedMs < HOUR_MS) return;
    const [, partition, , region, account] = functionArn.split(':');
    const stateMachineArn = `arn:${partition}:states:${region}:${account}:stateMachine:${resourceNames(prefix).stateMachine}`;
    const toMs = Math.ceil(nowMs / HOUR_MS) * HOUR_MS;
    const query = { window: { fromMs: toMs - WINDOW_MS, toMs }, nowMs, withQuotes };
    const { html: body } = await inTime(makePage({ ...deps, stateMachineArn, stack: prefix }, query), limitMs);
    const content = { body, type: 'text/html; charset=utf-8' };
    if ((await storage.putIf(bucket, workKeys.report('latest'), content, latest?.etag)) === undefined) return;
    await storage.putBytes(bucket, workKeys.report(new Date(nowMs).toISOString().slice(0, 10)), content);
  } catch (error) {
    // The run has done its work, and a later one writes the page.
    logger.warn('The page about the endpoint could not be written', { error: toNamedError(error) });
  }
}
