/** A server that injects faults between a client and S3 or MLflow: into a share or a number of the requests that a filter selects. */
import { createHash } from 'node:crypto';
import { pseudoRandom } from './faulty-judge/behavior.ts';
import { type Behavior, type SeenRequest, startMisbehavingServer } from './misbehaving-server.ts';

export type FaultRule = (request: SeenRequest) => Behavior | undefined;

export type FaultProxy = Awaited<ReturnType<typeof startFaultProxy>>;

export async function startFaultProxy(upstream: string) {
  const { url, rule: set, stop } = await startMisbehavingServer({ upstream, keepsNone: true });
  let injected = 0;
  return {
    url,
    /** Returns the number of faults injected since the last call of `inject`. */
    injected: () => injected,
    inject: (rule: FaultRule) => {
      injected = 0;
      set((request) => {
        const fault = rule(request);
        if (fault !== undefined) injected += 1;
        return fault;
      });
    },
    heal: () => set(() => undefined),
    stop,
  };
}

/** Fails the first `count` of the matching requests. */
export function firstOnes(count: number, matches: (request: SeenRequest) => boolean, fault: Behavior): FaultRule {
  let left = count;
  return (request) => {
    if (left === 0 || !matches(request)) return undefined;
    left -= 1;
    return fault;
  };
}

/** Fails every `n`-th of the matching requests, including the first. */
export function everyNth(n: number, matches: (request: SeenRequest) => boolean, fault: Behavior): FaultRule {
  let seen = 0;
  return (request) => {
    if (!matches(request)) return undefined;
    seen += 1;
    return seen % n === 1 ? fault : undefined;
  };
}

/**
 * Fails the given share of the matching requests, and always the first. The random draws are the same in every run. A regular
 * pattern could hit every write of a client that reads before each write.
 */
export function someOf(share: number, matches: (request: SeenRequest) => boolean, fault: Behavior): FaultRule {
  const draw = pseudoRandom(1);
  let isFirst = true;
  return (request) => {
    if (!matches(request)) return undefined;
    const hit = draw() < share || isFirst;
    isFirst = false;
    return hit ? fault : undefined;
  };
}

/**
 * Runs `work` after the server has answered `count` of the matching requests, before the last answer is forwarded. It counts
 * answers, because the first request sent may be the last one answered.
 */
export function afterReplies(
  count: number,
  matches: (request: SeenRequest) => boolean,
  work: () => Promise<void> | void,
): FaultRule {
  let replies = 0;
  const reached = async () => {
    replies += 1;
    if (replies === count) await work();
  };
  return (request) => (matches(request) ? { kind: 'passThen', work: reached } : undefined);
}

/** Fails each request with one of the faults, by their shares, or with none. The draws are the same in every run. */
export function mixOf(faults: readonly (readonly [share: number, fault: Behavior])[], seed = 1): FaultRule {
  const draw = pseudoRandom(seed);
  return () => {
    let rest = draw();
    for (const [share, fault] of faults) {
      if (rest < share) return fault;
      rest -= share;
    }
    return undefined;
  };
}

/**
 * Applies `rule`, but never fails the same request twice in a row. Requests are the same if method, path and body are equal.
 * Chance must not use up a client's attempts in a test that expects the same result in every run.
 */
export function sparing(rule: FaultRule): FaultRule {
  const spared = new Set<string>();
  return (request) => {
    const { method, path, body } = request;
    const what = createHash('sha256').update(`${method} ${path}\n`).update(body).digest('hex');
    if (spared.delete(what)) return undefined;
    const fault = rule(request);
    if (fault !== undefined) spared.add(what);
    return fault;
  };
}

/** Returns the fault of the first rule that has one. Later rules do not see the request. */
export function firstFault(...rules: readonly FaultRule[]): FaultRule {
  return (request) => {
    for (const rule of rules) {
      const fault = rule(request);
      if (fault !== undefined) return fault;
    }
    return undefined;
  };
}
