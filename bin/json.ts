/**
 * Types of the output of each command with `--json`. The files in `schemas/` are generated from these types, and the
 * comments of the types become descriptions: `UPDATE_SCHEMAS=1 npm run test:unit -- test/unit/bin/schemas`.
 */

import type { LineStory } from '../src/ledger/what-became.ts';
import type { LabelPicks } from '../src/quality/calibration/pick-labels.ts';
import type { CalibrationReport } from '../src/quality/calibration/report.ts';
import type { About } from './cli/output.ts';
import type { ProcessOutput, RunsFollowed } from './cli/run-json.ts';
import type { CaptureOutput } from './commands/capture.ts';
import type { ComparisonOutput } from './commands/compare.ts';
import type { PlanOutput } from './commands/compare-plan.ts';
import type { DatasetReport } from './commands/dataset.ts';
import type { FindOutput } from './commands/find.ts';
import type { ForgetOutput } from './commands/forget.ts';
import type { ForwardReport } from './commands/forward.ts';
import type { GroundTruthOutput } from './commands/ground-truth.ts';
import type { JudgeReport } from './commands/judge-run.ts';
import type { OpenedPage } from './commands/open.ts';
import type { DryRunOutput } from './commands/perform-replay.ts';
import type { RatesOutput } from './commands/rates.ts';
import type { ReplayOutput } from './commands/replay-text.ts';
import type { RunsOutput } from './commands/runs.ts';
import type { Quarantined } from './commands/show.ts';
import type { RunFiles } from './commands/show-lines.ts';
import type { StatusOutput } from './commands/status.ts';
import type { StopResult } from './commands/stop.ts';
import type { Diagnosis } from './doctor/diagnose.ts';
import type { InspectReport, LineReport } from './offline/inspect.ts';
import type { SqlResult } from './operate/athena.ts';
import type { WorstTraces } from './operate/worst.ts';
import type { ErrorOutput } from './program.ts';

export interface JsonOutputs {
  /** With `--labels` and `--anchors`, without an endpoint. */
  calibrate: CalibrationReport & Partial<About>;
  /** `on` and `off` describe the update. */
  capture: CaptureOutput;
  /** With `--plan` the sizes that the thresholds need. */
  compare: ComparisonOutput | PlanOutput;
  dataset: About & DatasetReport;
  doctor: Diagnosis;
  /** The output of every command with `--json` on standard error if it could not do its work. */
  error: ErrorOutput;
  find: About & FindOutput;
  forget: About & ForgetOutput;
  forward: About & ForwardReport;
  'ground-truth': About & GroundTruthOutput;
  /** Of `file:line` the result for the line. */
  inspect: InspectReport | LineReport;
  judge: JudgeReport;
  label: About & { picks: LabelPicks[] };
  open: OpenedPage;
  process: About & ProcessOutput;
  rates: About & RatesOutput;
  /** With `--dry-run` the requests that it would send. */
  replay: ReplayOutput | DryRunOutput;
  retry: About & RunsFollowed;
  runs: About & RunsOutput;
  /** With `--out`, the written lines; with `--files`, `--line` or `--trace`, the outcome of lines. */
  show: About & (RunsFollowed | Quarantined | RunFiles | LineStory);
  sql: About & SqlResult;
  status: StatusOutput;
  stop: About & StopResult;
  worst: About & WorstTraces;
}
