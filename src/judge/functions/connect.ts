/** Connects the functions of scorers. */
import type { Limits } from '../../limits/limits.ts';
import type { SpendingLimit } from '../../limits/spending-limit.ts';
import { expiry, type LimitsTable } from '../../limits/table.ts';
import type { AdaptiveLimiter } from '../calls/limiter.ts';
import { isFunctionScorer, withVersion } from '../scorers/scorer-set.ts';
import type { FunctionScorer, Scorer } from '../types.ts';
import { functionVersions, lambdaInvoke } from './lambda-invoke.ts';
import { type FunctionOptions, ScorerFunction } from './scorer-function.ts';

/** The mark of a run that a scorer has cost more than it may. */
function markOf(table: LimitsTable, run: string, name: string): FunctionOptions['overPrice'] {
  const scope = `overPrice#${run}#${name}`;
  return {
    isSet: async () => (await table.get(scope)).isOver !== undefined,
    set: async () => {
      const values = { isOver: 1, ttl: expiry() };
      await table.update({ scope, expression: 'SET #isOver = :isOver, #ttl = :ttl', values });
    },
  };
}

interface FunctionConnections extends Pick<FunctionOptions, 'retry'> {
  limits: Pick<Limits, 'scorer'>;
  /** Of the judge. Each function has a limiter of its own, with as many places. */
  limiter: AdaptiveLimiter;
  table: LimitsTable;
}

/**
 * Returns a function that connects the functions of a chunk's scorers. Their connections and limiters are kept for the next chunk.
 *
 * @example
 *     const connect = connectFunctions({ limits, limiter, table });
 *     const { scorers, functions } = await connect(all, request.run, limit, request.options.functions);
 */
export function connectFunctions({ limits, limiter, table, retry }: FunctionConnections) {
  const connections = new Map<string, Pick<FunctionOptions, 'invoke' | 'limiter' | 'limits'>>();
  const connectionOf = (scorer: FunctionScorer) => {
    const { asks } = scorer;
    const id = JSON.stringify(asks);
    const ofFunction = () => ({ limiter: limiter.follower(), limits: limits.scorer?.(asks) });
    const connection = connections.get(id) ?? { invoke: lambdaInvoke(scorer), ...ofFunction() };
    connections.set(id, connection);
    return connection;
  };
  return async (
    all: readonly Scorer[],
    run: string,
    limit: Pick<SpendingLimit, 'reserve'> | undefined,
    versions?: Record<string, string>,
  ) => {
    const known = versions ?? (await functionVersions(all.filter(isFunctionScorer)));
    const scorers = all.map((scorer) => (isFunctionScorer(scorer) ? withVersion(scorer, known[scorer.name]) : scorer));
    const functions = (signal: AbortSignal): ReadonlyMap<string, ScorerFunction> =>
      new Map(
        scorers.filter(isFunctionScorer).map((scorer) => {
          const overPrice = markOf(table, run, scorer.name);
          const options = { ...connectionOf(scorer), overPrice, limit, signal, retry };
          return [scorer.name, new ScorerFunction(scorer, options)];
        }),
      );
    return { scorers, functions };
  };
}
