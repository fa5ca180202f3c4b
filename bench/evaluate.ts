/** Measures judged captures per second: the evaluator's bundle against mlflow.genai.evaluate, with a judge that answers in 300 ms. */
import type { Log } from '../local/python/python-environment.ts';
import { DEFAULT_MLFLOW_VERSION } from '../local/python/python-presets.ts';
import { DEFAULT_JUDGE_MODEL } from '../src/settings/schema.ts';
import { PEER_LITELLM, PEER_MLFLOW, type SideReport, startBenchStack } from './support/bench-stack.ts';
import { numberFlag } from './support/flags.ts';
import { chatFile } from './support/records.ts';
import { atLeast, atMost, type BenchResult, machine, median, round } from './support/result.ts';
import { WriteRecorder, writeCeiling } from './support/write-ceiling.ts';

const JUDGE_MS = 300;
const TIMES_THE_PEER = 10;
const OF_CEILING = 0.8;

export default async function run(log: Log, flags: string[] = []): Promise<BenchResult> {
  const records = numberFlag(flags, 'records', 500);
  const rounds = numberFlag(flags, 'rounds', 3);
  const rate = (report: SideReport | undefined): number => round(records / (report?.seconds ?? Number.NaN), 1);
  const stack = await startBenchStack(log, { judgeMs: JUDGE_MS });
  try {
    const ours: SideReport[] = [];
    const peer: SideReport[] = [];
    const calls = { ours: 0, peer: 0 };
    const ceilings: number[] = [];
    for (let n = 0; n < rounds; n += 1) {
      const key = await stack.put(`round-${n}`, chatFile(records, n * records));
      // Both sides judge traces that our processor has logged, each in a separate experiment.
      for (const experiment of [`ours-${n}`, `peer-${n}`, `ceiling-${n}`])
        await stack.ours('log-traces', experiment, key);

      const recorder = await WriteRecorder.start(stack.mlflow.url);
      try {
        await stack.ours('evaluate-traces', `ceiling-${n}`, key, recorder.url);
        ceilings.push(round(await writeCeiling(stack.mlflow.url, recorder.writes, records), 1));
      } finally {
        await recorder.stop();
      }
      log(`round ${n + 1}: MLflow's ceiling ${ceilings.at(-1)} captures/s`);

      let before = stack.judge.counts.calls;
      ours.push(await stack.ours('evaluate-traces', `ours-${n}`, key));
      calls.ours += stack.judge.counts.calls - before;
      const own = await stack.readBack(`ours-${n}`);
      log(`round ${n + 1}: ours ${rate(ours.at(-1))} captures/s, ${own.assessments} assessments`);

      before = stack.judge.counts.calls;
      peer.push(await stack.python('evaluate.py', [`peer-${n}`, `bedrock:/${DEFAULT_JUDGE_MODEL}`]));
      calls.peer += stack.judge.counts.calls - before;
      const others = await stack.readBack(`peer-${n}`);
      log(
        `round ${n + 1}: peer ${rate(peer.at(-1))} captures/s, ${others.assessments} assessments, ${others.errors} errors`,
      );
      for (const [side, found] of [
        ['ours', own],
        ['peer', others],
      ] as const) {
        if (found.traces < records || found.assessments < records * 12 || found.errors > 0) {
          throw new Error(
            `${side} is incomplete; got: ${JSON.stringify(found)}; expected: ${records} traces with 12 verdicts each and no errors`,
          );
        }
      }
    }
    const rates = (reports: SideReport[]): number[] => reports.map(rate);
    const rss = (reports: SideReport[]): number => Math.max(...reports.map(({ maxRssMb }) => maxRssMb));
    const ratio = median(rates(ours)) / median(rates(peer));
    const ofCeiling = median(rates(ours)) / median(ceilings);
    return {
      name: 'evaluate',
      ratio: round(ratio),
      ours: {
        'captures/s': median(rates(ours)),
        rounds: rates(ours),
        'peak MB': round(rss(ours)),
        'judge calls per capture': calls.ours / rounds / records,
      },
      peer: {
        'captures/s': median(rates(peer)),
        rounds: rates(peer),
        'peak MB': round(rss(peer)),
        'judge calls per capture': calls.peer / rounds / records,
      },
      machine: machine(),
      versions: {
        node: process.version,
        'MLflow server': DEFAULT_MLFLOW_VERSION,
        'MLflow client of the peer': PEER_MLFLOW,
        litellm: PEER_LITELLM,
      },
      checks: [
        // If the ratio is missed, MLflow must be the bottleneck: we require 0.8 of its own ceiling.
        ratio >= TIMES_THE_PEER
          ? atLeast('ratio of captures per second', ratio, TIMES_THE_PEER)
          : atLeast(`share of MLflow’s own ceiling (${TIMES_THE_PEER} × the peer is missed)`, ofCeiling, OF_CEILING),
        atMost('peak memory, MB', rss(ours), 150),
      ],
      notes: [
        `the judge answers in ${JUDGE_MS} ms`,
        `MLflow’s ceiling, measured with a bare client that posts our recorded writes to the idle server: ${median(ceilings)} captures/s; ours is ${round(ofCeiling)} of it`,
        'imports are not counted on either side; both sides were read back and were complete in every round',
      ],
    };
  } finally {
    await stack.stop();
  }
}
