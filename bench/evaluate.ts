/**
 * Measures judged captures per second, with a judge that answers in 300 ms: our functions from the capture file to judged traces,
 * against mlflow.genai.evaluate over traces that exist. With `--managed`: a server without OTLP whose artifacts are in S3.
 */
import type { Log } from '../local/python/python-environment.ts';
import { DEFAULT_MLFLOW_VERSION, MANAGED_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import { defaultJudgeModel } from '../src/settings/default-judge.ts';
import { type BenchStack, PEER_LITELLM, PEER_MLFLOW, type SideReport, startBenchStack } from './support/bench-stack.ts';
import { numberFlag } from './support/flags.ts';
import { chatFile } from './support/records.ts';
import { Ceiling, RequestRecorder } from './support/request-ceiling.ts';
import { atLeast, atMost, type BenchResult, machine, median, round } from './support/result.ts';

const JUDGE_MS = 300;
const TIMES_THE_PEER = 7;
const OF_CEILING = 0.8;
/** For captures that are new, in chunks of at least 100; files of spans in S3 are apart. */
const REQUESTS_PER_CAPTURE = 1.2;

/** What the rounds measured. */
interface Rounds {
  ours: SideReport[];
  peer: SideReport[];
  calls: { ours: number; peer: number };
  verdicts: { ours: number; peer: number };
  ceiling: Ceiling;
  /** Our requests about traces, per capture. */
  requests: number;
}

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const records = numberFlag(flags, 'records', 500);
  const rounds = numberFlag(flags, 'rounds', 3);
  const managed = flags.includes('--managed');
  const mlflowVersion = managed ? MANAGED_MLFLOW_VERSION : DEFAULT_MLFLOW_VERSION;
  const stack = await startBenchStack(log, { judgeMs: JUDGE_MS, mlflowVersion, artifactsInS3: managed });
  try {
    const measured: Rounds = {
      ours: [],
      peer: [],
      calls: { ours: 0, peer: 0 },
      verdicts: { ours: 0, peer: 0 },
      ceiling: new Ceiling(stack.mlflow.url),
      requests: 0,
    };
    for (let n = 0; n < rounds; n += 1) await measureRound(stack, n, records, measured, log);
    return resultOf(measured, records, mlflowVersion);
  } finally {
    await stack.stop();
  }
}

const rateOf = (records: number, { seconds }: SideReport): number => round(records / seconds, 1);

/** Processor time, which hardly depends on what else the machine does. On the same cores, it is what takes from MLflow. */
function cpuOf(reports: readonly SideReport[], records: number): Record<string, number> {
  const each = reports.flatMap(({ cpuSeconds }) => cpuSeconds ?? []).map((seconds) => (seconds * 1000) / records);
  return each.length === 0 ? {} : { 'processor ms per capture': round(median(each), 1) };
}

async function measureRound(stack: BenchStack, n: number, records: number, to: Rounds, log: Log): Promise<void> {
  const key = await stack.put(`round-${n}`, chatFile(records, n * records));
  // The peer judges traces that our processor has logged.
  await stack.ours('log-traces', `peer-${n}`, key);

  const measure = async (side: 'ours' | 'peer', name: string, run: () => Promise<SideReport>): Promise<void> => {
    const before = stack.judge.counts.calls;
    const report = await run();
    to[side].push(report);
    to.calls[side] += stack.judge.counts.calls - before;
    const found = await stack.readBack(name);
    const { traces, assessments, errors } = found;
    to.verdicts[side] += assessments;
    log(`round ${n + 1}: ${side} ${rateOf(records, report)} captures/s, ${assessments} assessments, ${errors} errors`);
    if (traces < records || assessments < records * 12 || errors > 0) {
      throw new Error(
        `${side} is incomplete; got: ${JSON.stringify(found)}; expected: ${records} traces with 12 verdicts each and no errors`,
      );
    }
  };
  const requests = await recordedRun(stack, `ceiling-${n}`, key);
  to.requests = requests.length / records;
  await to.ceiling.measure(requests, records, async (clients) => {
    const name = `ours-${n}-${clients}`;
    await measure('ours', name, () => stack.run(name, key));
  });
  log(`round ${n + 1}: MLflow's ceiling ${to.ceiling}`);
  const peer = `peer-${n}`;
  await measure('peer', peer, () => stack.python('evaluate.py', [peer, `bedrock:/${defaultJudgeModel()}`]));
}

/** Returns our requests to MLflow, which a proxy records in a run of its own. */
async function recordedRun(stack: BenchStack, experiment: string, key: string): Promise<RequestRecorder['requests']> {
  const recorder = await RequestRecorder.start(stack.mlflow.url);
  try {
    await stack.run(experiment, key, recorder.url);
    return recorder.requests;
  } finally {
    await recorder.stop();
  }
}

function resultOf(
  { ours, peer, calls, verdicts, ceiling, requests }: Rounds,
  records: number,
  mlflowVersion: string,
): BenchResult {
  const rates = (reports: SideReport[]): number[] => reports.map((report) => rateOf(records, report));
  const rss = (reports: SideReport[]): number => Math.max(...reports.map(({ maxRssMb }) => maxRssMb));
  const figures = (reports: SideReport[], calls: number, verdicts: number) => ({
    'captures/s': median(rates(reports)),
    rounds: rates(reports),
    'peak MB': round(rss(reports)),
    ...cpuOf(reports, records),
    'judge calls per capture': calls / reports.length / records,
    'verdicts per capture': verdicts / reports.length / records,
  });
  const ratio = median(rates(ours)) / median(rates(peer));
  const ofCeiling = median(rates(ours)) / ceiling.rate;
  return {
    name: 'evaluate',
    ratio: round(ratio),
    ours: figures(ours, calls.ours, verdicts.ours),
    peer: figures(peer, calls.peer, verdicts.peer),
    machine: machine(),
    versions: {
      node: process.version,
      'MLflow server': mlflowVersion,
      'MLflow client of the peer': PEER_MLFLOW,
      litellm: PEER_LITELLM,
    },
    checks: [
      atLeast('ratio of captures per second', ratio, TIMES_THE_PEER),
      atLeast('share of MLflow’s own ceiling for the same requests', ofCeiling, OF_CEILING),
      atMost('requests to MLflow per capture', requests, REQUESTS_PER_CAPTURE),
      atMost('peak memory, MB', rss(ours), 150),
    ],
    notes: [
      `the judge answers in ${JUDGE_MS} ms`,
      `MLflow’s ceiling, measured with bare clients that repeat our recorded requests to the idle server: ${ceiling}; ours is ${round(ofCeiling)} of it`,
      'ours includes planning and writing the traces, which the peer finds written; imports are not counted on either side; ours is measured in turn with each number of bare clients; both sides were read back and were complete every time',
    ],
  };
}
