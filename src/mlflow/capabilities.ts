/** What a tracking server can do, by its version; looked up now and then, since the server behind a URL may be replaced. */
import { PermanentError } from '../shared/errors.ts';
import { withRetries } from '../shared/retry.ts';
import { MlflowRefusedError } from './errors.ts';
import type { MlflowRest } from './rest.ts';

export interface ServerCapabilities {
  /** As the server says it; `undefined` where it does not say. */
  version: string | undefined;
  /** Many traces in one OTLP request, with tags and session. */
  otlp: boolean;
  /** `batchGetInfos`; else search. */
  batchRead: boolean;
  /** Posting a trace that exists merges what is sent, assessments included. */
  mergesTraces: boolean;
}

const OLDEST = [3, 0];
const BATCH_READ_SINCE = [3, 11];
/** Before, posting a trace that has assessments fails. */
const MERGING_SINCE = [3, 13];
/**
 * Before 3.13, `/v1/traces` drops tags. 3.13 gives all traces of a request the tags of the last one, and puts quotes
 * around sessions. Until 3.16 a span that comes twice has its tokens counted twice: two runs that overlap, or a request
 * that arrives after we have given it up, would double them.
 */
const OTLP_SINCE = [3, 17];

/** A server that was rolled back would take traces by OTLP and drop their tags: one small request a minute tells. */
const ASKED_AGAIN_MS = 60_000;

const atLeast = (version: number[], since: number[]): boolean => {
  const [major = 0, minor = 0] = version;
  const [sinceMajor = 0, sinceMinor = 0] = since;
  return major > sinceMajor || (major === sinceMajor && minor >= sinceMinor);
};

/** @throws PermanentError `MlflowTooOld` */
export function capabilitiesOf(version: string | undefined): ServerCapabilities {
  const numbers = (version ?? '3.0').split('.').map((part) => Number.parseInt(part, 10) || 0);
  if (!atLeast(numbers, OLDEST)) {
    throw new PermanentError('MlflowTooOld', 'This MLflow server does not know traces of the form that is written', {
      got: `version ${version}`,
      expected: 'version 3.0 or newer',
    });
  }
  return {
    version,
    otlp: atLeast(numbers, OTLP_SINCE),
    batchRead: atLeast(numbers, BATCH_READ_SINCE),
    mergesTraces: atLeast(numbers, MERGING_SINCE),
  };
}

export class CapabilityProbe {
  readonly #rest: MlflowRest;
  #known: Promise<ServerCapabilities> | undefined;
  #askedMs = 0;
  /** Ways that turned out missing although the version has them, e.g. behind a gateway that knows fewer routes. */
  readonly #missing = new Set<'otlp' | 'batchRead'>();

  constructor(rest: MlflowRest) {
    this.#rest = rest;
  }

  get(): Promise<ServerCapabilities> {
    const age = Date.now() - this.#askedMs;
    // A clock that was set back makes them old as well.
    if (age < 0 || age > ASKED_AGAIN_MS) this.#known = undefined;
    if (this.#known === undefined) this.#askedMs = Date.now();
    this.#known ??= this.#probe().catch((error) => {
      this.#known = undefined;
      throw error;
    });
    return this.#known;
  }

  /** A way turned out missing: the server may have been replaced, so it is asked again. */
  async lacks(way: 'otlp' | 'batchRead'): Promise<ServerCapabilities> {
    this.#missing.add(way);
    this.#known = undefined;
    return this.get();
  }

  async #probe(): Promise<ServerCapabilities> {
    const can = capabilitiesOf(await this.#version());
    for (const way of this.#missing) can[way] = false;
    return can;
  }

  async #version(): Promise<string | undefined> {
    try {
      const reply = await withRetries(this.#rest.retry, () => this.#rest.bytes({ method: 'GET', path: '/version' }));
      return /^\d+\.[\d.]+/.exec(reply.toString('utf8').trim())?.[0];
    } catch (error) {
      if (error instanceof MlflowRefusedError) return undefined;
      // A gateway in front of managed MLflow may pass on the API's routes only: then the oldest ways are used.
      if (this.#rest.target.kind !== 'url' && isAccessDenied(error)) return undefined;
      throw error;
    }
  }
}

export const isAccessDenied = (error: unknown): boolean =>
  error instanceof PermanentError && error.name === 'MlflowAccessDenied';
