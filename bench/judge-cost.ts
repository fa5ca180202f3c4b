/**
 * Computes what the ways of judging cost per 1,000 captures, by the estimator at its own lengths. The peer is the default way.
 */
import type { Log } from '../local/python/python-environment.ts';
import type { Capture } from '../src/captures/types.ts';
import { defaultJudgeModel } from '../src/core/settings/variables.ts';
import { activeScorers } from '../src/judge/active-scorers.ts';
import { expectedCalls } from '../src/judge/pricing/estimate.ts';
import { PRICE_SOURCE } from '../src/judge/pricing/prices.ts';
import { FAILING_SHARE } from '../src/judge/pricing/request-tokens.ts';
import { applicability } from '../src/judge/scorers/applicability.ts';
import { isJudgeScorer } from '../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../src/judge/types.ts';
import { captureOf } from '../src/quality/calibration/ask-judge.ts';
import { atMost, type BenchResult, round } from './support/result.ts';

const MODEL = defaultJudgeModel() ?? '';
/** Bedrock does not list the default model for batch inference. */
const IN_BATCH = 'global.anthropic.claude-sonnet-4-6';
const HAIKU = 'global.anthropic.claude-haiku-4-5-20251001-v1:0';
const NOVA = 'us.amazon.nova-lite-v1:0';

/** The record that makes a request of 2,000 tokens: a question of 120 tokens and a reply of 360. */
const ESTIMATED = { request: 120, reply: 360 };
/** Verdicts that fail together: a bad reply fails several questions. Other numbers are printed beside it. */
const TOGETHER = 4;

const TARGETS = { hits: 6, misses: 9, cascadeBatch: 2.5 };

type Settings = Parameters<typeof expectedCalls>[0] & Parameters<typeof activeScorers>[0];
type Way = Parameters<typeof expectedCalls>[3];

const BASE: Settings = {
  BEDROCK_MODEL_ID: MODEL,
  JUDGE_GUIDELINES: {},
  JUDGE_PRICES: {},
  MLFLOW_EVALUATION_MODEL_PARAM: {},
};
const TERSE = { JUDGE_RATIONALES: 'failures' } as const;
const CACHED = { JUDGE_PREFIX: 'cached' } as const;

const captureWith = (request: string, reply: string): Capture =>
  captureOf({ messages: [{ role: 'user', content: request }], reply: { role: 'assistant', content: reply } });

function scorersOf(settings: Settings, capture: Capture, way?: Way): JudgeScorer[] {
  const all = activeScorers(settings, way?.judge);
  return all.filter(isJudgeScorer).filter((scorer) => 'judge' in applicability(capture, scorer));
}

/** The ways by name, with their settings. */
function ways(verdicts: number): [string, Partial<Settings>, Way?][] {
  const spread = (each: number) => ({ failingCaptures: (FAILING_SHARE * verdicts) / each });
  const batch = { judge: 'batch' } as const;
  return [
    ['all (default)', {}],
    ['all, cached', CACHED],
    ['all, batch, Sonnet 4.6', { BEDROCK_MODEL_ID: IN_BATCH }, batch],
    ['failures', TERSE],
    ['failures, cached', { ...TERSE, ...CACHED }],
    ['failures, cached, never hit', { ...TERSE, ...CACHED }, { cacheHits: false }],
    ['failures, batch, Sonnet 4.6', { ...TERSE, BEDROCK_MODEL_ID: IN_BATCH }, batch],
    ...[HAIKU, NOVA].flatMap((model): [string, Partial<Settings>, Way][] => {
      const name = model === HAIKU ? 'Haiku 4.5' : 'Nova Lite';
      const settings = { ...TERSE, JUDGE_CASCADE: model };
      return [
        [`failures, cascade of ${name}`, settings, spread(TOGETHER)],
        [`failures, cascade of ${name}, batch`, settings, { ...batch, ...spread(TOGETHER) }],
        [
          `failures, cascade of ${name}, batch, one capture in ten fails in all`,
          settings,
          { ...batch, ...spread(verdicts) },
        ],
        [`failures, cascade of ${name}, batch, each verdict fails by itself`, settings, batch],
      ];
    }),
  ];
}

const per1000 = ({ usd }: { usd: number | null }): number => round((usd ?? Number.NaN) * 1000);

function estimated(log: Log): Map<string, number> {
  const text = (tokens: number): string => 'abc '.repeat(tokens);
  const capture = captureWith(text(ESTIMATED.request), text(ESTIMATED.reply));
  const costs = new Map<string, number>();
  for (const [name, settings, way] of ways(scorersOf(BASE, capture).length)) {
    const all = { ...BASE, ...settings };
    const expected = expectedCalls(all, capture, scorersOf(all, capture, way), way);
    costs.set(name, per1000(expected));
    const { calls, inputTokens, outputTokens } = expected;
    log(
      `${name.padEnd(78)} $${per1000(expected).toFixed(2).padStart(5)} per 1,000: ${calls.toFixed(2)} calls, ${Math.round(inputTokens)} tokens in, ${Math.round(outputTokens)} out each`,
    );
  }
  return costs;
}

export default async function run(log: Log): Promise<BenchResult> {
  const costs = estimated(log);
  const of = (name: string): number => costs.get(name) ?? Number.NaN;
  const today = of('all (default)');
  const ratios = [...costs].map(([name, usd]) => `${name}: $${usd.toFixed(2)}, ${round(usd / today)} of the default`);
  return {
    ratio: round(today / of('failures, cached')),
    ours: Object.fromEntries([...costs].slice(1)),
    peer: { 'all (default)': today },
    versions: { prices: PRICE_SOURCE },
    checks: [
      atMost('dollars per 1,000 captures, failures, with cache hits', of('failures, cached'), TARGETS.hits),
      atMost('dollars per 1,000 captures, failures, without', of('failures'), TARGETS.misses),
      atMost(
        `dollars per 1,000 captures, failures, cascade of Nova Lite, batch, ${TOGETHER} verdicts fail together`,
        of('failures, cascade of Nova Lite, batch'),
        TARGETS.cascadeBatch,
      ),
    ],
    notes: [
      ...ratios,
      `${MODEL}; ${FAILING_SHARE * 100}% of the verdicts fail; in a cascade, ${TOGETHER} of a capture together if nothing else is said`,
      'in batch inference the main model of a cascade is asked on demand, at the full price',
    ],
  };
}
