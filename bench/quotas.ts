/**
 * Runs capture files through a deployed stack under the quotas of a new account: all at once, or those named with `--only`,
 * such as `--only mlflow --only judgeTokensPerMinute`. It prints what was asked for, throttled and served. The stack knows the
 * quotas that have a setting, unless `--unknown` keeps them from it. `--mlflow 5` imposes 5 requests a second in place of 25, for a
 * machine on which MLflow itself is slower; `--day-tokens 50000` a day of which a few captures use up the tokens.
 */
import type { Log } from '../local/python/python-environment.ts';
import { FRESH_ACCOUNT, type QuotaLimits } from '../test/doubles/quota-shim/limits.ts';
import { usedShare } from '../test/doubles/quota-shim/meter.ts';
import { QuotaEnvironment } from '../test/helpers/quota-environment.ts';
import { countWindow } from './cost/count-window.ts';
import { numberFlag } from './support/flags.ts';
import { chatFile } from './support/records.ts';
import { atLeast, atMost, type BenchResult, type Check, machine, round } from './support/result.ts';

const OF_TIGHTEST = 0.8;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const limits = limitsOf(flags);
  const files = numberFlag(flags, 'files', 20);
  const captures = numberFlag(flags, 'captures', 20);
  const stack = await QuotaEnvironment.start({
    endpoint: 'bench-quotas',
    limits: {},
    judge: { delayMs: numberFlag(flags, 'judge-ms', 1000) },
    likeApp: true,
    settings: { EVALUATION_BUDGET_USD: '1000', ...(flags.includes('--unknown') ? {} : settingsFor(limits)) },
    log,
  });
  try {
    await countWindow(stack, { name: 'warm-up', bodies: [chatFile(1, 900_000)], captures: 1 });
    stack.shim.impose(limits);
    log(`imposed: ${JSON.stringify(limits)}`);
    const bodies = Array.from({ length: files }, (_, n) => chatFile(captures, n * captures));
    // It throws if a run fails or a line has no trace.
    const window = await countWindow(stack, { name: 'quotas', bodies, captures: files * captures });
    return resultOf(stack, limits, files * captures, window.wallSeconds);
  } finally {
    await stack.stop();
  }
}

function limitsOf(flags: readonly string[]): QuotaLimits {
  const names = flags.flatMap((flag) => (flag.startsWith('--only=') ? [flag.slice('--only='.length)] : []));
  const unknown = names.find((name) => !(name in FRESH_ACCOUNT));
  if (unknown !== undefined) {
    const expected = Object.keys(FRESH_ACCOUNT).join(', ');
    throw new Error(`--only names no quota; got: ${unknown}; expected: one of ${expected}`);
  }
  const chosen = Object.entries(FRESH_ACCOUNT).filter(
    ([name]) => names.length === 0 || names.includes(name) || name === 'outputBurndown',
  );
  const limits: QuotaLimits = Object.fromEntries(chosen);
  if (limits.judgeTokensPerDay) {
    limits.judgeTokensPerDay = numberFlag(flags, 'day-tokens', limits.judgeTokensPerDay);
  }
  if (limits.mlflow) limits.mlflow = { perSecond: numberFlag(flags, 'mlflow', limits.mlflow.perSecond) };
  return limits;
}

const settingsFor = ({ mlflow, judgeTokensPerMinute: tokens }: QuotaLimits): Record<string, string> => ({
  ...(mlflow ? { MLFLOW_REQUESTS_PER_SECOND: String(mlflow.perSecond) } : {}),
  ...(tokens ? { JUDGE_TOKENS_PER_MINUTE: String(tokens) } : {}),
});

function resultOf({ shim }: QuotaEnvironment, limits: QuotaLimits, captures: number, seconds: number): BenchResult {
  const events = shim.emulatorEvents();
  const usages = [...shim.counts.limits].map(
    ([name, { asked, throttled, served }]) =>
      `${name}: ${asked} asked, ${throttled} throttled, ${round(served, 0)} served`,
  );
  const judged = shim.counts.of('judge calls').served;
  const { judgeRequestsPerMinute: calls = 0, judgeTokensPerMinute: tokens = 0, mlflow } = limits;
  const rates = [
    { name: 'mlflow', perSecond: mlflow?.perSecond ?? 0 },
    { name: 'judge calls', perSecond: calls / 60 },
    { name: 'judge tokens', perSecond: tokens / 60 },
  ].flatMap(({ name, perSecond }) =>
    perSecond > 0 ? [{ name, share: usedShare(shim.counts.of(name), perSecond) }] : [],
  );
  const tightest = rates.toSorted((a, b) => b.share - a.share)[0];
  const checks: Check[] = [
    atMost('judge calls that were answered, a capture', judged / captures, 1),
    ...(tightest ? [atLeast(`share of the tightest quota used (${tightest.name})`, tightest.share, OF_TIGHTEST)] : []),
  ];
  return {
    name: 'quotas',
    ratio: 1,
    ours: { captures, seconds: round(seconds, 1), 'judge calls': judged },
    peer: {},
    machine: machine(),
    versions: { node: process.version },
    checks,
    notes: [
      ...usages,
      `used in the steady state: ${rates.map(({ name, share }) => `${name} ${round(share)}`).join(', ') || 'no rate'}`,
      `functions: ${events.filter(({ throttled }) => throttled).length} invocations throttled`,
      `Map Runs: ${events.filter(({ mapRun }) => mapRun === 'waited').length} waited for another to end`,
    ],
  };
}
