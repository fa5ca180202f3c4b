/**
 * Measures judged captures per second, with a judge that answers in 300 ms: our functions from the capture file to judged traces,
 * against mlflow.genai.evaluate over traces that exist. With `--managed`: a server without OTLP whose artifacts are in S3. A file of more
 * than 500 captures has several chunks, whose functions run side by side.
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
/** The peer takes minutes for more. */
const MOST_OF_PEER = 500;
/** For captures that are new, in chunks of at least 100; files of spans in S3 are apart. */
const REQUESTS_PER_CAPTURE = 1.2;

/** The captures that each side judges in a round. */
interface Captures {
  ours: number;
  peer: number;
}

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
  const ours = numberFlag(flags, 'records', 500);
  const captures = { ours, peer: Math.min(ours, MOST_OF_PEER) };
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
    for (let n = 0; n < rounds; n += 1) await measureRound(stack, n, captures, measured, log);
    return resultOf(measured, captures, mlflowVersion);
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

async function measureRound(stack: BenchStack, n: number, captures: Captures, to: Rounds, log: Log): Promise<void> {
  const key = await stack.put(`round-${n}`, chatFile(captures.ours, n * captures.ours));
  // The peer judges traces that our processor has logged.
  const ofPeer = await stack.put(`round-${n}-peer`, chatFile(captures.peer, n * captures.peer));
  await stack.ours('log-traces', `peer-${n}`, ofPeer);

  const measure = async (side: 'ours' | 'peer', name: string, run: () => Promise<SideReport>): Promise<void> => {
    const records = captures[side];
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
  to.requests = requests.length / captures.ours;
  await to.ceiling.measure(requests, captures.ours, async (clients) => {
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
  captures: Captures,
  mlflowVersion: string,
): BenchResult {
  const reports = { ours, peer };
  const rates = (side: 'ours' | 'peer'): number[] => reports[side].map((report) => rateOf(captures[side], report));
  const rss = (side: 'ours' | 'peer'): number => Math.max(...reports[side].map(({ maxRssMb }) => maxRssMb));
  const figures = (side: 'ours' | 'peer') => ({
    captures: captures[side],
    'captures/s': median(rates(side)),
    rounds: rates(side),
    'peak MB': round(rss(side)),
    ...cpuOf(reports[side], captures[side]),
    'judge calls per capture': calls[side] / reports[side].length / captures[side],
    'verdicts per capture': verdicts[side] / reports[side].length / captures[side],
  });
  const ratio = median(rates('ours')) / median(rates('peer'));
  const ofCeiling = median(rates('ours')) / ceiling.rate;
  return {
    name: 'evaluate',
    ratio: round(ratio),
    ours: figures('ours'),
    peer: figures('peer'),
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
      atMost('peak memory of a function, MB', rss('ours'), 150),
    ],
    notes: [
      `the judge answers in ${JUDGE_MS} ms`,
      `MLflow’s ceiling, measured with bare clients that repeat our recorded requests to the idle server: ${ceiling}; ours is ${round(ofCeiling)} of it`,
      'ours includes planning and writing the traces, which the peer finds written; imports are not counted on either side; ours is measured in turn with each number of bare clients; both sides were read back and were complete every time',
    ],
  };
}
