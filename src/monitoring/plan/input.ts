/** Parses the input of an execution, which has one of five forms. */

import type * as z from 'zod';
import { isObject } from '../../captures/json.ts';
import {
  type BackfillInput,
  backfillInputSchema,
  type ExchangesInput,
  type ExecutionInput,
  exchangesInputSchema,
  filesInputSchema,
  objectInputSchema,
  type RunOptions,
  retryInputSchema,
} from '../../core/contract/input.ts';
import { PermanentError } from '../../core/errors/errors.ts';

const ALLOWED =
  'one of {"detail":{"bucket":{"name":…},"object":{"key":…}}}, ' +
  '{"files":{"key":"starts/…"}}, ' +
  '{"bucket":…,"prefix":…,"from":"2026-11-20T09:00:00Z","to":…}, ' +
  '{"replay":{"run":"<execution name of a replay>","experimentId":…}}, ' +
  '{"retry":{"run":"<execution name>","what":"failed"|"quarantined"|"held"}}; each may have ' +
  '"evaluate", "reevaluate", "dryRun" (true or false), "sampleRate" (0 to 1) or "verdicts" (1 or more), "budgetUsd" (over 0), "judge" ("converse" or "batch"); a replay neither "dryRun" nor "judge", and neither it nor a retry "verdicts"';

const SCHEMAS = {
  retry: retryInputSchema,
  object: objectInputSchema,
  files: filesInputSchema,
  replay: exchangesInputSchema,
  backfill: backfillInputSchema,
};

type Kind = keyof typeof SCHEMAS;
export type ParsedInput = { [K in Kind]: { kind: K; input: z.infer<(typeof SCHEMAS)[K]> } }[Kind];

/**
 * Parses the input of an execution.
 *
 * @throws PermanentError `InvalidInput`, with the input and the allowed shapes
 *
 * @example
 *     parseInput({ bucket: 'my-captures', prefix: 'my-endpoint/' }).kind   // 'backfill'
 */
export function parseInput(raw: unknown): ParsedInput {
  const invalid = (problem: string): PermanentError =>
    new PermanentError('InvalidInput', `The input of the execution is invalid: ${problem}`, {
      got: raw,
      expected: ALLOWED,
    });
  if (!isObject(raw)) throw invalid('it is not an object');
  // Each form is selected by its unique key, so that the error concerns the intended form.
  const named = (['retry', 'files', 'replay'] as const).find((key) => key in raw);
  const kind: Kind = named ?? ('detail' in raw ? 'object' : 'backfill');
  const result = SCHEMAS[kind].safeParse(raw);
  if (!result.success) {
    throw invalid(
      result.error.issues.map((issue) => `${issue.path.join('.') || 'input'}: ${issue.message}`).join('; '),
    );
  }
  const { sampleRate, verdicts } = result.data as BackfillInput;
  if (sampleRate !== undefined && verdicts !== undefined)
    throw invalid('"sampleRate" and "verdicts" exclude each other');
  if (kind === 'backfill') {
    const { from, to } = result.data as BackfillInput;
    if (from !== undefined && to !== undefined && Date.parse(from) >= Date.parse(to)) {
      throw invalid('"from" must be before "to" ("to" is exclusive)');
    }
  }
  return { kind, input: result.data } as ParsedInput;
}

const msOf = (instant: string | undefined): number | undefined =>
  instant === undefined ? undefined : Date.parse(instant);

/** Returns the options of the run, with the defaults of the stack. */
export function runOptions(input: ExecutionInput, defaults: Pick<RunOptions, 'sampleRate'>): RunOptions {
  const { from, to } = ('prefix' in input ? input : {}) as Partial<BackfillInput>;
  const { replay } = input as Partial<ExchangesInput>;
  const { judge = 'converse', dryRun = false, verdicts } = input as Partial<BackfillInput>;
  const rate = verdicts === undefined ? defaults.sampleRate : undefined;
  return {
    evaluate: input.evaluate ?? true,
    reevaluate: input.reevaluate ?? false,
    sampleRate: input.sampleRate ?? (replay === undefined ? rate : 1),
    verdicts,
    dryRun,
    judge,
    budgetUsd: input.budgetUsd,
    window: from === undefined && to === undefined ? undefined : { fromMs: msOf(from), toMs: msOf(to) },
    ...(replay === undefined ? {} : { replay }),
  };
}

/** Whether a run judges a number of captures of its own, because older captures must not use up the day's. */
export function isOwnNumber(kind: ParsedInput['kind'], options: RunOptions): boolean {
  const { evaluate, sampleRate, chance, verdicts, reevaluate } = options;
  if (!evaluate || sampleRate !== undefined) return false;
  if (kind === 'retry') return chance !== undefined;
  return kind === 'backfill' || reevaluate || verdicts !== undefined;
}

/** Whether the captures of a run are new: the input selects no time range, no unfinished work and no new verdicts. */
export function isLive(raw: unknown, options: Pick<RunOptions, 'reevaluate'> | null): boolean {
  if (options === null || options.reevaluate) return false;
  const { kind } = parseInput(raw);
  return kind === 'object' || kind === 'files';
}
