/** Logs failures that the limits do without: better to exceed a rate than to stop the pipeline. */
import { logger } from '../core/process/logging.ts';

const logged = new Set<string>();

/** Logs the first failure of a kind in this process. */
export function warnOnce(what: string, error: unknown): void {
  if (logged.has(what)) return;
  logged.add(what);
  logger.warn(what, error as Error);
}
