/** Measures traces per second: the processor's bundle, also with masking, against MLflow's Python client, with the same records and tags. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import type { Log } from '../local/python/python-environment.ts';
import { DEFAULT_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import { REDACT_KINDS } from '../src/core/settings/redact-setting.ts';
import { type BenchStack, PEER_MLFLOW, type SideReport, startBenchStack } from './support/bench-stack.ts';
import { numberFlag } from './support/flags.ts';
import { chatFile } from './support/records.ts';
import { Ceiling, RequestRecorder } from './support/request-ceiling.ts';
import { atLeast, atMost, type BenchResult, machine, median, round } from './support/result.ts';

const OF_CEILING = 0.8;
/** What masking leaves of the rate. */
const MASKED = 0.95;

export interface IngestPlan {
  name: string;
  records: number;
  rounds: number;
  /** The ratio that the product must reach. */
  target: number;
  mlflowVersion?: string;
  artifactsInS3?: boolean;
}

/** The peer needs about 200 s per round of 5,000. Three rounds separate a difference from drift of the machine. */
const run = (log: Log, flags: string[] = []): Promise<BenchResult> =>
  ingest(log, {
    name: 'ingest',
    records: numberFlag(flags, 'records', 5000),
    rounds: numberFlag(flags, 'rounds', 3),
    target: 20,
  });

/** What the rounds measured. */
interface Rounds {
  ours: SideReport[];
  /** Ours, with every kind of `REDACT`. */
  masked: SideReport[];
  peer: SideReport[];
  ceiling: Ceiling;
}

export async function ingest(log: Log, plan: IngestPlan): Promise<BenchResult> {
  const { mlflowVersion, artifactsInS3 } = plan;
  const stack = await startBenchStack(log, { mlflowVersion, artifactsInS3 });
  try {
    const measured: Rounds = { ours: [], masked: [], peer: [], ceiling: new Ceiling(stack.mlflow.url) };
    for (let n = 0; n < plan.rounds; n += 1) await measureRound(stack, n, plan, measured, log);
    const bundleKb = round(statSync(stack.bundle('log-traces')).size / 1000);
    const result = resultOf(measured, plan, bundleKb);
    return { ...result, notes: [...result.notes, stack.placeOfMlflow] };
  } finally {
    await stack.stop();
  }
}

const rateOf = ({ records }: IngestPlan, { seconds }: SideReport): number => round(records / seconds, 1);

async function measureRound(stack: BenchStack, n: number, plan: IngestPlan, to: Rounds, log: Log): Promise<void> {
  // Each round and side has its own records, so none exists already.
  const name = `round-${n}`;
  const key = await stack.put(name, chatFile(plan.records, n * plan.records));
  const recorder = await RequestRecorder.start(stack.mlflow.url);
  try {
    await stack.ours('log-traces', `ceiling-${n}`, key, { mlflowUrl: recorder.url });
    await to.ceiling.measure(recorder.requests, plan.records);
  } finally {
    await recorder.stop();
  }
  log(`round ${n + 1}: MLflow's ceiling ${to.ceiling}`);

  const file = join(stack.directory, `${name}.jsonl`);
  const sides = {
    ours: () => stack.ours('log-traces', `ours-${n}`, key),
    masked: () => stack.ours('log-traces', `masked-${n}`, key, { REDACT: REDACT_KINDS.join(',') }),
    peer: () => stack.python('ingest.py', [`peer-${n}`, file, 'bench-captures', key]),
  };
  for (const side of ['ours', 'masked', 'peer'] as const) {
    const report = await sides[side]();
    to[side].push(report);
    const found = await stack.readBack(`${side}-${n}`);
    if (found.traces !== plan.records || found.whole !== plan.records) {
      throw new Error(
        `${side}-${n} is incomplete; got: ${JSON.stringify(found)}; expected: ${plan.records} traces with all tags`,
      );
    }
    log(`round ${n + 1}: ${side} ${rateOf(plan, report)} records/s`);
  }
}

function resultOf({ ours, masked, peer, ceiling }: Rounds, plan: IngestPlan, bundleKb: number): BenchResult {
  const rates = (reports: SideReport[]): number[] => reports.map((report) => rateOf(plan, report));
  const rss = (reports: SideReport[]): number => Math.max(...reports.map(({ maxRssMb }) => maxRssMb));
  const figures = (reports: SideReport[]) => ({
    'records/s': median(rates(reports)),
    rounds: rates(reports),
    'peak MB': round(rss(reports)),
  });
  const ratio = median(rates(ours)) / median(rates(peer));
  // Of rounds, since the machine drifts.
  const kept = median(ours.map((report, n) => report.seconds / (masked[n]?.seconds ?? 0)));
  const ofCeiling = median(rates(ours)) / ceiling.rate;
  return {
    name: plan.name,
    ratio: round(ratio),
    ours: {
      ...figures(ours),
      'with REDACT': rates(masked),
      'peak MB with REDACT': round(rss(masked)),
      'bundle KB': bundleKb,
    },
    peer: figures(peer),
    machine: machine(),
    versions: {
      node: process.version,
      'MLflow server': plan.mlflowVersion ?? DEFAULT_MLFLOW_VERSION,
      'MLflow client of the peer': PEER_MLFLOW,
    },
    checks: [
      // If the ratio is missed, MLflow must be the bottleneck: we require 0.8 of its own ceiling.
      ratio >= plan.target
        ? atLeast('ratio of records per second', ratio, plan.target)
        : atLeast(`share of MLflow’s own ceiling (${plan.target} × the peer is missed)`, ofCeiling, OF_CEILING),
      atLeast('records per second with REDACT over those without', kept, MASKED),
      atMost('peak memory, MB', rss(ours), 120),
    ],
    notes: [
      `MLflow’s ceiling, measured with bare clients that repeat our recorded requests to the idle server: ${ceiling}, ${round(ceiling.rate / median(rates(peer)), 1)} × the peer; ours is ${round(ofCeiling)} of it`,
      'imports are not counted on either side; both sides were read back and were complete in every round',
    ],
  };
}

export default run;
