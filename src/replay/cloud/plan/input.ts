/** Checks the input of a cloud replay. */
import type * as z from 'zod';
import { replayInputSchema } from '../../../core/contract/replay.ts';
import { PermanentError, PipelineError } from '../../../core/errors/errors.ts';
import type { ReplayEnvironment } from '../../../core/settings/environment.ts';
import { DEFAULT_JUDGE_BUDGET_USD } from '../../derived-options.ts';
import { checkedOptions } from '../../options.ts';
import { shownUrl } from '../../request/target.ts';
import type { CaptureWindow } from '../../source/types.ts';
import { assertAllowed } from '../target.ts';

const ALLOWED =
  '{"target":{"endpoint":…} or {"url":…}, "source":{"bucket","prefix","from","to"}, and the options of the command ' +
  `line: ${Object.keys(replayInputSchema.omit({ source: true, target: true }).shape).join(', ')}}`;

/** A valid input with all defaults filled in. */
export type ReplayJob = ReturnType<typeof parseReplayInput>;

/**
 * Parses and checks the input.
 *
 * @throws PermanentError `InvalidReplayInput`, `EndpointNotAllowed`, `InferenceComponentNotAllowed`, `UrlNotAllowed`,
 * `SecretNotAllowed`
 */
export function parseReplayInput(raw: unknown, environment: ReplayEnvironment) {
  const invalid = (problem: string, cause?: unknown): PermanentError =>
    new PermanentError(
      'InvalidReplayInput',
      `The execution's input is invalid: ${problem}`,
      { got: JSON.stringify(raw, withoutSecrets), expected: ALLOWED },
      cause,
    );
  const parsed = replayInputSchema.safeParse(raw);
  if (!parsed.success) throw invalid(problemsOf(parsed.error.issues).join('; '));
  const input = parsed.data;
  const { source = {}, target, compare, dryRun, shard, ...more } = input;
  const { judge, judgeBudgetUsd, mlflow, experiment, ...options } = more;
  if (judgeBudgetUsd !== undefined && !judge) throw invalid('judgeBudgetUsd needs "judge": true');
  if (judge && mlflow === false) throw invalid('the verdicts of "judge" are in MLflow, so "mlflow" cannot be false');
  // The verdicts of a judge are in MLflow.
  const isLogged = mlflow || judge;
  if (experiment !== undefined && !isLogged) throw invalid('experiment needs "mlflow": true');
  try {
    checkedOptions(options);
  } catch (error) {
    throw invalid(error instanceof PipelineError ? error.message : String(error), error);
  }
  const msOf = (time: string | undefined) => (time === undefined ? undefined : Date.parse(time));
  const window: CaptureWindow = { fromMs: msOf(source.from), toMs: msOf(source.to) };
  if ((window.fromMs ?? -Infinity) >= (window.toMs ?? Infinity)) {
    throw invalid('source: "from" must be before "to" ("to" is exclusive)');
  }
  if ('url' in target && [...new URL(target.url).searchParams.keys()].some((name) => name !== 'api-version')) {
    throw invalid(
      'target.url: a query may only have "api-version", because it is stored as plain text; use headersSecretArn',
    );
  }
  assertAllowed(target, environment);
  return {
    source: {
      bucket: source.bucket ?? environment.DATA_CAPTURE_S3_BUCKET,
      prefix: source.prefix ?? environment.DATA_CAPTURE_S3_PREFIX,
    },
    window,
    target,
    options,
    // The judge needs the comparison, to find the replies that differ.
    compare: (compare ?? false) || (judge ?? false),
    // Without `judge`, no judge runs. A budget of 0 dollars means that only the daily budget applies.
    ...(judge ? { judge: { budgetUsd: judgeBudgetUsd ?? DEFAULT_JUDGE_BUDGET_USD } } : {}),
    ...(isLogged ? { mlflow: experiment === undefined ? {} : { experiment } } : {}),
    dryRun: dryRun ?? false,
    shard: shard ?? {},
  };
}

const withoutSecrets = (key: string, value: unknown): unknown =>
  key === 'url' && typeof value === 'string' ? shownUrl(value) : value;

/** For a union, returns the problems of the best-fitting shape, which is probably the intended one. */
function problemsOf(issues: readonly z.core.$ZodIssue[]): string[] {
  return issues.flatMap((issue) => {
    const at = issue.path.join('.') || 'input';
    if (issue.code === 'invalid_union') {
      const known = issue.errors.filter((one) => !one.some(({ code }) => code === 'unrecognized_keys'));
      const best = (known.length > 0 ? known : issue.errors).toSorted((a, b) => a.length - b.length)[0] ?? [];
      return best.map(({ path, message }) => `${[at, ...path].join('.')}: ${message}`);
    }
    return [`${at}: ${issue.message}`];
  });
}
