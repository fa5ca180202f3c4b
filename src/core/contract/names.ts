/** The names of the deployed resources and of the budget table's attributes. */
import parameters from './output-parameters.json' with { type: 'json' };
import names from './resource-names.json' with { type: 'json' };

/**
 * The names of a stack's deployed resources: those of `resource-names.json`, and the prefix. The names of replays are without
 * `data-capture`: with a long prefix they would exceed the limit of AWS.
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

/** The path of a stack's SSM parameters, and without a prefix that of all stacks. */
export const outputPath = (prefix?: string): string =>
  `/sagemaker-inference-monitor/${prefix === undefined ? '' : `${prefix}/`}`;

/** The names of a stack's SSM parameters below its path: what commands and other stacks need to know of it. */
export const OUTPUT_PARAMETERS = parameters;
export type StackOutputs = Record<keyof typeof OUTPUT_PARAMETERS, string>;

/** The attributes that the definition of the budget's DynamoDB table names. */
export const budgetTable = {
  /** String: `day#2026-11-20` or `run#<execution name>`, and what begins so (src/judge/budget); or of the gate (src/gate). */
  partitionKey: 'scope',
  /** Time to live, epoch seconds. */
  ttlAttribute: 'ttl',
} as const;
