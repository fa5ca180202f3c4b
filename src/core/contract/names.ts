/** The names of the deployed resources and of the budget table's attributes. */
import parameters from './output-parameters.json' with { type: 'json' };
import names from './resource-names.json' with { type: 'json' };

/**
 * Returns the names of a stack's deployed resources: the names in `resource-names.json` with the prefix. Names of
 * replays lack `data-capture`, because a long prefix would exceed AWS's limit.
 */
export const resourceNames = (prefix: string) =>
  Object.fromEntries(Object.entries(names).map(([resource, name]) => [resource, `${name}-${prefix}`])) as typeof names;

/** The secret with the key of a stack's pseudonyms. It survives the stack, so that a later one of that prefix finds it. */
export const pseudonymKeyName = (prefix: string): string => `sagemaker-inference-monitor/${prefix}/pseudonyms`;

/** Begins the names of the runs that the events of new files start. */
export const EVENT_RUN_PREFIX = 'files-';

/** The Glue database of a stack. Glue and Athena take lower-case letters, digits and underscores. */
export const sqlDatabaseName = (prefix: string): string =>
  `inference_monitor_${prefix.toLowerCase().replaceAll('-', '_')}`;

/** Returns the path of a stack's SSM parameters, or of all stacks' parameters without a prefix. */
export const outputPath = (prefix?: string): string =>
  `/sagemaker-inference-monitor/${prefix === undefined ? '' : `${prefix}/`}`;

/** Names of a stack's SSM parameters below its path: the facts that commands and other stacks need. */
export const OUTPUT_PARAMETERS = parameters;
export type StackOutputs = Record<keyof typeof OUTPUT_PARAMETERS, string>;

/** The attributes that the definition of the budget's DynamoDB table names. */
export const budgetTable = {
  /** String such as `day#2026-11-20` or `run#<execution name>`; each limit in src/limits has its own form. */
  partitionKey: 'scope',
  /** Time to live, epoch seconds. */
  ttlAttribute: 'ttl',
} as const;
