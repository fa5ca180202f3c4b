/**
 * Bedrock's quotas of one model: calls and tokens a minute, tokens a day, batch jobs under way.
 *
 * Tokens count as Bedrock describes it: a call first takes its input and the whole `maxTokens`; when it is answered, the
 * difference to what it used (an output token counts `outputBurndown` times, a token read from the cache not at all) is
 * given back or taken.
 */

import type { Reply, SeenRequest } from '../misbehaving-server.ts';
import { type Gate, jsonError, type Upstream, type Verdict } from './front.ts';
import type { QuotaLimits } from './limits.ts';
import { Bucket, type Counts } from './meter.ts';

const CALL_PATH = /^\/model\/[^/]+\/(?:converse|invoke)$/;
const JOB_PATH = '/model-invocation-job';
const BYTES_PER_TOKEN = 4;
const DEFAULT_MAX_TOKENS = 4096;
const ENDED = new Set(['Completed', 'PartiallyCompleted', 'Failed', 'Stopped', 'Expired']);

export const PER_DAY = 'Too many tokens per day, please wait before trying again.';
const TOO_MANY_TOKENS = 'Too many tokens, please wait before trying again.';
const TOO_MANY_REQUESTS = 'Too many requests, please wait before trying again.';

const throttled = (message: string): Verdict => ({ answer: jsonError(429, 'ThrottlingException', message) });

export class JudgeGate implements Gate {
  readonly #limits: QuotaLimits;
  readonly #counts: Counts;
  readonly #requests: Bucket | undefined;
  readonly #tokens: Bucket | undefined;
  readonly #jobs = new Set<string>();
  #creating: Promise<unknown> = Promise.resolve();
  /** Tokens of this day. */
  today = 0;

  constructor(limits: QuotaLimits, counts: Counts, now: () => number) {
    this.#limits = limits;
    this.#counts = counts;
    const { judgeRequestsPerMinute: calls, judgeTokensPerMinute: tokens } = limits;
    this.#requests = calls === undefined ? undefined : new Bucket({ perSecond: calls / 60, burst: calls / 60 }, now);
    this.#tokens = tokens === undefined ? undefined : new Bucket({ perSecond: tokens / 60, burst: tokens }, now);
  }

  admit(asked: SeenRequest, upstream: Upstream): Promise<Verdict> | Verdict {
    const path = asked.path.split('?')[0] ?? '';
    if (asked.method === 'POST' && CALL_PATH.test(path)) return this.#call(asked);
    if (asked.method === 'POST' && path === JOB_PATH) return this.#job(asked, upstream);
    this.#counts.operation('bedrock control');
    return undefined;
  }

  #call({ body }: SeenRequest): Verdict {
    const counts = this.#counts;
    const { judgeTokensPerDay: perDay, outputBurndown = 1 } = this.#limits;
    counts.operation('bedrock call');
    const request = JSON.parse(body.toString()) as { inferenceConfig?: { maxTokens?: number } };
    const maxTokens = request.inferenceConfig?.maxTokens ?? DEFAULT_MAX_TOKENS;
    const reserved = Math.ceil(body.length / BYTES_PER_TOKEN) + maxTokens;
    if (perDay !== undefined && this.today >= perDay) {
      counts.throttled('judge tokens a day');
      return throttled(PER_DAY);
    }
    if (this.#requests?.take() === false) {
      counts.throttled('judge calls');
      return throttled(TOO_MANY_REQUESTS);
    }
    if (this.#tokens?.take(reserved) === false) {
      counts.throttled('judge tokens');
      return throttled(TOO_MANY_TOKENS);
    }
    return {
      served: (reply) => {
        const used = usedTokens(reply, outputBurndown);
        this.#tokens?.correct(used - reserved);
        this.today += used;
        counts.served('judge calls');
        counts.served('judge tokens', used);
        counts.served('judge tokens a day', used);
      },
    };
  }

  /** One at a time, so that two requests cannot both take the last place. */
  #job(asked: SeenRequest, upstream: Upstream): Promise<Verdict> {
    const next = this.#creating.then(() => this.#createJob(asked, upstream));
    this.#creating = next.catch(() => undefined);
    return next;
  }

  async #createJob(asked: SeenRequest, upstream: Upstream): Promise<Verdict> {
    const limit = this.#limits.batchJobs ?? Number.POSITIVE_INFINITY;
    this.#counts.operation('bedrock job');
    for (const arn of this.#jobs) {
      const path = `${JOB_PATH}/${encodeURIComponent(arn)}`;
      const reply = await upstream.send({ ...asked, method: 'GET', path, body: Buffer.alloc(0) });
      const { status = '' } = JSON.parse(reply.body.toString()) as { status?: string };
      if (ENDED.has(status)) this.#jobs.delete(arn);
    }
    if (this.#jobs.size >= limit) {
      this.#counts.throttled('batch jobs');
      const message = `You have exceeded the maximum number of submitted and in-progress batch inference jobs (${limit}) for the model.`;
      return { answer: jsonError(400, 'ServiceQuotaExceededException', message) };
    }
    const reply = await upstream.send(asked);
    const { jobArn } = JSON.parse(reply.body.toString()) as { jobArn?: string };
    if (jobArn !== undefined) this.#jobs.add(jobArn);
    this.#counts.served('batch jobs');
    return { answer: reply };
  }
}

/** What an answered call counts: a refused one nothing. */
function usedTokens({ status, body }: Reply, burndown: number): number {
  if (status !== 200) return 0;
  const { usage } = JSON.parse(body.toString()) as {
    usage?: { inputTokens?: number; outputTokens?: number; cacheWriteInputTokens?: number };
  };
  const { inputTokens = 0, outputTokens = 0, cacheWriteInputTokens = 0 } = usage ?? {};
  return inputTokens + cacheWriteInputTokens + outputTokens * burndown;
}
