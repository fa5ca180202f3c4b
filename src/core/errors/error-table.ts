/** The table of errors as values, for what deploys, tests and describes the pipeline. */
import table from './errors.json' with { type: 'json' };

export const ERROR_TABLE = table;

/** The names of errors that Step Functions retries, with those of throttled services. */
export const RETRYABLE_ERRORS: readonly string[] = [...Object.keys(table.transient), ...Object.keys(table.throttled)];
