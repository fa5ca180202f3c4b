/** Reads the quotas that limit a stack, and computes how many captures a day they allow. */

import { GetAccountSettingsCommand } from '@aws-sdk/client-lambda';
import type { CheckedSettings } from '../../src/core/settings/schema.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { parseJudgeId } from '../../src/judge/judge-id.ts';
import { outputBurndown } from '../../src/judge/models/model-properties.ts';
import { resolveModel } from '../../src/judge/models/profile-id.ts';
import { estimateFromSizes } from '../../src/judge/pricing/estimate.ts';
import { SIZES } from '../../src/limits/sizes.ts';
import { listAll } from '../operate/aws-calls.ts';
import { broken, type CheckContext, type Found, ok, warning } from './finding.ts';

const MINUTES_PER_DAY = 1_440;
const number = (value: number): string => value.toLocaleString('en-US');

/** Number of functions that plan and summarize, in addition to the functions for chunks. */
const OTHERS = 2;

/** New accounts have 10 concurrent invocations in place of 1,000. */
export async function checkLambda({ lambda, settings }: CheckContext): Promise<Found> {
  const { AccountLimit } = await lambda.send(new GetAccountSettingsCommand({}));
  const { MAX_FUNCTIONS: ours = 0 } = settings;
  const limit = AccountLimit?.ConcurrentExecutions ?? 0;
  const free = AccountLimit?.UnreservedConcurrentExecutions ?? limit;
  const found = `${number(limit)} concurrent invocations in the account, ${number(free)} not reserved; the chunks of all runs take up to MAX_FUNCTIONS=${ours}`;
  if (ours > 0 && ours + OTHERS <= free) return ok(`${found}.`);
  const message = `${found}, which leaves too few for planning, replays and other functions.`;
  return warning(message, 'lower MAX_FUNCTIONS, or raise the quota L-B99A9384 in Service Quotas');
}

interface ServiceQuota {
  QuotaName?: string;
  Value?: number;
}

/** The tokens of a model's id, or of its name in a quota, in no order: ids put the version before or after the family. */
const tokensOf = (name: string): string => (name.toLowerCase().match(/[a-z]+|\d+/g) ?? []).toSorted().join(' ');

/** Parses the unit and the model of a quota from its name. */
const QUOTA =
  /^(?<kind>on-demand|cross-region|global cross-region) model inference (?<unit>requests|tokens) per (?<per>minute|day) for (?<model>.+)$/i;

/**
 * Returns a model's quotas per day, as the calls of a judge meet them.
 *
 * @param model a Bedrock id, also of a profile or an ARN
 */
export function quotasOf(model: string, quotas: readonly ServiceQuota[]) {
  const { model: id = '', profile } = resolveModel(model) ?? {};
  const kind = profile === undefined ? 'on-demand' : profile === 'global' ? 'global cross-region' : 'cross-region';
  // Removes `-20251001-v1:0`, because names of quotas do not contain date and version.
  const [plain = ''] = id.split(':');
  const tokens = tokensOf(plain.replace(/-v\d$/, '').replace(/-\d{8}$/, ''));
  return quotas.flatMap(({ QuotaName: name = '', Value: value = 0 }) => {
    const { kind: its = '', unit = '', per = '', model: named = '' } = QUOTA.exec(name)?.groups ?? {};
    if (its.toLowerCase() !== kind || tokensOf(named.replace(/ v\d+$/i, '')) !== tokens) return [];
    const perDay = per.toLowerCase() === 'minute' ? value * MINUTES_PER_DAY : value;
    return [{ unit: unit.toLowerCase(), perDay, name: `${number(value)} ${unit} per ${per}` }];
  });
}

/** An answer takes 10 s (docs/scale.md), and twice that when the model is busy. */
const SLOW_ANSWERS_PER_MINUTE = 3;

/** Checks whether the quota of requests allows as many concurrent calls as the size makes. */
function checkSize({ SIZE }: CheckedSettings, quotas: ReturnType<typeof quotasOf>): Found {
  const { judgeCalls } = SIZES[SIZE];
  const { perDay = Infinity } = quotas.find(({ unit }) => unit === 'requests') ?? {};
  const most = Math.floor(perDay / MINUTES_PER_DAY / SLOW_ANSWERS_PER_MINUTE);
  const message = `SIZE=${SIZE} makes up to ${number(judgeCalls)} calls of the judge at once, and the quota keeps ${number(most)} under way.`;
  return judgeCalls > most && warning(message, 'raise the quota, or choose a smaller SIZE');
}

/** Lines of captures of chats are 2,000 to 4,000 bytes long. */
const LINE_BYTES = 3_000;

/** The captures a day that the quotas of the judge's model allow, by the lengths of the estimator. */
export async function checkBedrock({ lambda, settings }: CheckContext, main: string): Promise<Found> {
  const { JUDGE_CASCADE: judge = main } = settings;
  if (parseJudgeId(judge).scheme !== 'bedrock') return undefined;
  const input = { ServiceCode: 'bedrock', MaxResults: 100 };
  const all = await listAll<ServiceQuota>('Quotas', lambda, 'servicequotas', 'ListServiceQuotas', input);
  const found = quotasOf(judge, all);
  if (found.length === 0) {
    const message = `Service Quotas has no quota of ${judge} under its name.`;
    return warning(message, 'look for it there, under Amazon Bedrock');
  }
  // In a cascade, this model is asked about every capture.
  const asked = { ...(settings as CheckedSettings), BEDROCK_MODEL_ID: judge, JUDGE_CASCADE: undefined };
  const options = { judge: 'converse', sampleRate: 1 } as const;
  const size = estimateFromSizes(asked, activeScorers(asked), options, { captures: 1, bytes: LINE_BYTES });
  const burndown = outputBurndown(judge);
  const tokens = size.inputTokens + burndown * size.outputTokens;
  const perCapture: Record<string, number> = { requests: size.judgeCalls, tokens };
  const perDay = Math.floor(Math.min(...found.map(({ unit, perDay }) => perDay / (perCapture[unit] ?? 1))));
  const quotas = found.map(({ name }) => name).join(', ');
  const message = `${quotas}: about ${number(perDay)} captures a day, at ${number(tokens)} tokens each (${number(size.inputTokens)} in, ${number(size.outputTokens)} out${burndown > 1 ? `, which count ${burndown}-fold` : ''})`;
  if (perDay === 0) return broken(`${message}. Every call is throttled.`, 'raise the quota in Service Quotas');
  const enough = ok(
    `${message}. More are throttled.`,
    'judge fewer captures (JUDGED_CAPTURES_PER_DAY, or EVALUATION_SAMPLE_RATE), or raise the quota',
  );
  return [enough, checkSize(asked, found)];
}
