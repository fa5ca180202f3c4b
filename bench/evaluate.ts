/**
 * Measures judged captures per second, with a judge that answers in 300 ms: our functions from the capture file to judged traces,
 * against mlflow.genai.evaluate over traces that exist. With `--managed`: a server without OTLP whose artifacts are in S3. A file of more
 * than 500 captures has several chunks, whose functions run side by side. The functions are warm, as Lambda keeps them; the first run of
 * each round, with new ones, is reported apart.
 */
import type { Log } from '../local/python/python-environment.ts';
import { DEFAULT_MLFLOW_VERSION, MANAGED_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import { defaultJudgeModel } from '../src/core/settings/variables.ts';
import { type BenchStack, PEER_LITELLM, PEER_MLFLOW, type SideReport, startBenchStack } from './support/bench-stack.ts';
import { numberFlag } from './support/flags.ts';
import { chatFile } from './support/records.ts';
import { Ceiling, RequestRecorder } from './support/request-ceiling.ts';
import { atLeast, atMost, type BenchResult, median, round } from './support/result.ts';

const JUDGE_MS = 300;
const TIMES_THE_PEER = 7;
const OF_CEILING = 0.8;
/** The peer takes minutes for more. */
const MOST_OF_PEER = 500;
/** For captures that are new, in chunks of at least 100; files of spans in S3 are apart. */
const REQUESTS_PER_CAPTURE = 1.2;

/** A third of the least LAMBDA_MEMORY_MB. A function levels off near 150 MB: 138 after its first 500 captures, 149 after 24 times as many. */
const MOST_MEMORY_MB = 170;

/** More than the files of captures that a round puts: no capture is in two files. */
const FILES_OF_ROUND = 10;

/** The captures that each side judges in a round. */
interface Captures {
  ours: number;
  peer: number;
}

/** `cold`: ours with functions that have just started. */
type Side = 'ours' | 'cold' | 'peer';
const each = <T>(make: () => T): Record<Side, T> => ({ ours: make(), cold: make(), peer: make() });

/** What the rounds measured. */
interface Rounds {
  reports: Record<Side, SideReport[]>;
  calls: Record<Side, number>;
  verdicts: Record<Side, number>;
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
      reports: each(() => []),
      calls: each(() => 0),
      verdicts: each(() => 0),
      ceiling: new Ceiling(stack.mlflow.url),
      requests: 0,
    };
    for (let n = 0; n < rounds; n += 1) await measureRound(stack, n, captures, measured, log);
    const result = resultOf(measured, captures, mlflowVersion);
    return { ...result, notes: [...result.notes, stack.placeOfMlflow] };
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
  let files = n * FILES_OF_ROUND;
  const put = (records: number): Promise<string> => {
    files += 1;
    return stack.put(`file-${files}`, chatFile(records, files * captures.ours));
  };
  /** What was read back of each experiment so far. */
  const seen = new Map<string, { traces: number; assessments: number }>();
  const measure = async (side: Side, experiment: string, run: () => Promise<SideReport>): Promise<void> => {
    const records = side === 'peer' ? captures.peer : captures.ours;
    const callsBefore = stack.judge.counts.calls;
    const report = await run();
    to.reports[side].push(report);
    to.calls[side] += stack.judge.counts.calls - callsBefore;
    const before = seen.get(experiment) ?? { traces: 0, assessments: 0 };
    const found = await stack.readBack(experiment);
    seen.set(experiment, found);
    const [traces, assessments] = [found.traces - before.traces, found.assessments - before.assessments];
    to.verdicts[side] += assessments;
    const { errors } = found;
    log(`round ${n + 1}: ${side} ${rateOf(records, report)} captures/s, ${assessments} assessments, ${errors} errors`);
    if (traces < records || assessments < records * 12 || errors > 0) {
      throw new Error(
        `${side} is incomplete; got: ${JSON.stringify({ traces, assessments, errors })}; expected: ${records} traces with 12 verdicts each and no errors`,
      );
    }
  };

  const requests = await recordedRun(stack, `ceiling-${n}`, await put(captures.ours));
  to.requests = requests.length / captures.ours;
  const ours = `ours-${n}`;
  const functions = stack.warmFunctions(ours);
  try {
    const measureOurs = async (side: 'ours' | 'cold', name: string): Promise<void> => {
      const key = await put(captures.ours);
      await measure(side, ours, () => functions.run(name, key));
    };
    await measureOurs('cold', `${ours}-cold`);
    await to.ceiling.measure(requests, captures.ours, (clients) => measureOurs('ours', `${ours}-${clients}`));
  } finally {
    functions.close();
  }
  log(`round ${n + 1}: MLflow's ceiling ${to.ceiling}`);

  const peer = `peer-${n}`;
  // The peer judges traces that our processor has logged.
  await stack.ours('log-traces', peer, await put(captures.peer));
  await measure('peer', peer, () => stack.python('evaluate.py', [peer, `bedrock:/${defaultJudgeModel()}`]));
}

/** Returns our requests to MLflow, which a proxy records in a run of its own. */
async function recordedRun(stack: BenchStack, experiment: string, key: string): Promise<RequestRecorder['requests']> {
  const recorder = await RequestRecorder.start(stack.mlflow.url);
  const functions = stack.warmFunctions(experiment, recorder.url);
  try {
    await functions.run(experiment, key);
    return recorder.requests;
  } finally {
    functions.close();
    await recorder.stop();
  }
}

function resultOf(
  { reports, calls, verdicts, ceiling, requests }: Rounds,
  captures: Captures,
  mlflowVersion: string,
): BenchResult {
  const recordsOf = (side: Side): number => (side === 'peer' ? captures.peer : captures.ours);
  const rates = (side: Side): number[] => reports[side].map((report) => rateOf(recordsOf(side), report));
  const rss = (side: Side): number => Math.max(...reports[side].map(({ maxRssMb }) => maxRssMb));
  const figures = (side: Side) => ({
    captures: recordsOf(side),
    'captures/s': median(rates(side)),
    rounds: rates(side),
    'peak MB': round(rss(side)),
    ...cpuOf(reports[side], recordsOf(side)),
    'judge calls per capture': calls[side] / reports[side].length / recordsOf(side),
    'verdicts per capture': verdicts[side] / reports[side].length / recordsOf(side),
  });
  const ratio = median(rates('ours')) / median(rates('peer'));
  const ofCeiling = median(rates('ours')) / ceiling.rate;
  return {
    ratio: round(ratio),
    ours: { ...figures('ours'), 'captures/s of new functions': median(rates('cold')), 'their rounds': rates('cold') },
    peer: figures('peer'),
    versions: {
      'MLflow server': mlflowVersion,
      'MLflow client of the peer': PEER_MLFLOW,
      litellm: PEER_LITELLM,
    },
    checks: [
      atLeast('ratio of captures per second', ratio, TIMES_THE_PEER),
      atLeast('share of MLflow’s own ceiling for the same requests', ofCeiling, OF_CEILING),
      atMost('requests to MLflow per capture', requests, REQUESTS_PER_CAPTURE),
      atMost('peak memory of a function, MB', Math.max(rss('ours'), rss('cold')), MOST_MEMORY_MB),
    ],
    notes: [
      `the judge answers in ${JUDGE_MS} ms`,
      `MLflow’s ceiling, measured with bare clients that repeat our recorded requests to the idle server: ${ceiling}; ours is ${round(ofCeiling)} of it`,
      `ours is measured with functions that have run before, in turn with each number of bare clients; new functions reach ${round(median(rates('cold')) / ceiling.rate)} of the ceiling`,
      'ours includes planning and writing the traces, which the peer finds written; imports are not counted on either side; both sides were read back and were complete every time',
    ],
  };
}
