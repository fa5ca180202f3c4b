/** `inference-monitor calibrate`: how far the judge agrees with people. */
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Command, InvalidArgumentError, Option } from 'commander';
import { projectPath } from '../../local/project-root.ts';
import { readAnchors } from '../../src/calibration/anchors.ts';
import { askAll, givenPairs, mostUsd } from '../../src/calibration/ask-judge.ts';
import { baselineOf, compareWithBaseline, parseBaseline } from '../../src/calibration/drift.ts';
import { addExamples, MAX_EXAMPLES } from '../../src/calibration/examples.ts';
import { calibrationPage } from '../../src/calibration/html-report.ts';
import { parseLabels } from '../../src/calibration/labels-file.ts';
import { readMlflowLabels } from '../../src/calibration/mlflow-labels.ts';
import { calibrationReport } from '../../src/calibration/report.ts';
import { terminalReport } from '../../src/calibration/terminal-report.ts';
import type { CalibrationReport, LabeledItem, Unanswered } from '../../src/calibration/types.ts';
import { judgeOf } from '../../src/judge/connect.ts';
import { priceOptions, requireKnownPrice } from '../../src/judge/pricing/prices.ts';
import { scorerExamples } from '../../src/judge/scorers/scorer-examples.ts';
import { isJudgeScorer, scorersFor, withExamples } from '../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../src/judge/types.ts';
import { mlflowOf } from '../../src/mlflow/connect.ts';
import { findExperiment } from '../../src/mlflow/experiments.ts';
import { PermanentError } from '../../src/shared/errors.ts';
import { singleLine } from '../../src/shared/terminal-text.ts';
import { type CommandSettings, commandSettings } from './settings.ts';

/** Most that one calibration may spend unless it is told otherwise: the anchor set costs about one dollar. */
const DEFAULT_BUDGET_USD = 20;

const EXAMPLES_FILE = join('src', 'judge', 'scorers', 'scorer-examples.json');

interface CalibrateOptions {
  labels?: string;
  anchors?: boolean;
  experiment?: string;
  trackingUri?: string;
  filter?: string;
  judge?: string;
  model?: string;
  scorer?: string[];
  ask: 'production' | 'labelled';
  budgetUsd: number;
  json?: string;
  html?: string;
  baseline?: string;
  saveBaseline?: string;
  addExamples?: boolean | number;
  minAgreement?: number;
}

const amount = (text: string): number => {
  const value = Number(text);
  if (!(value >= 0)) throw new InvalidArgumentError('a number of 0 or more is needed');
  return value;
};
const shareOfOne = (text: string): number => {
  const value = amount(text);
  if (value > 1) throw new InvalidArgumentError('a number from 0 to 1 is needed');
  return value;
};

const HELP = `
Where the labels come from (one of):
  people's assessments in MLflow, beside the judge's on the same traces    calibrate [--experiment NAME]
  a file, one JSON object per line, judged now                             calibrate --labels FILE
      {"request": "…", "reply": "…", "scorer": "safety", "label": "no", "reason": "…"}
  the project's anchor set, judged now                                     calibrate --anchors

Examples:
  inference-monitor calibrate --experiment my-endpoint --html report.html
  inference-monitor calibrate --labels labels.jsonl --scorer safety refusal --json report.json
  inference-monitor calibrate --anchors --save-baseline anchors-baseline.json
  inference-monitor calibrate --anchors --baseline anchors-baseline.json
  inference-monitor calibrate --labels labels.jsonl --add-examples

Settings are taken from the environment and .env (BEDROCK_MODEL_ID, MLFLOW_TRACKING_URI, JUDGE_GUIDELINES, …).
The exit code is 1 when --min-agreement is missed, or when the judge has drifted from --baseline.`;

export function calibrateCommand(): Command {
  return new Command('calibrate')
    .description("compare the judge's verdicts with people's: agreement, Cohen's kappa, error rates, disagreements")
    .addOption(new Option('--labels <file>', 'labels as JSON lines, judged now').conflicts(['anchors', 'experiment']))
    .addOption(new Option('--anchors', 'the project’s anchor set, judged now').conflicts(['labels', 'experiment']))
    .option('--experiment <name>', 'MLflow experiment (default: MLFLOW_EXPERIMENT_NAME, else SAGEMAKER_ENDPOINT_NAME)')
    .option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)')
    .option('--filter <expression>', 'MLflow’s filter of traces, e.g. "tag.sagemaker_variant_name = \'AllTraffic\'"')
    .option(
      '--judge <source>',
      'in MLflow, only verdicts of this judge, e.g. bedrock:/global.anthropic.claude-sonnet-4-6',
    )
    .option('--model <id>', 'the judge that is asked (default: BEDROCK_MODEL_ID)')
    .option('--scorer <names...>', 'only these scorers')
    .addOption(
      new Option('--ask <which>', 'ask all scorers that apply, as production does, or the labelled ones only')
        .choices(['production', 'labelled'])
        .default('production'),
    )
    .option('--budget-usd <amount>', 'most that may be spent on the judge, 0: no limit', amount, DEFAULT_BUDGET_USD)
    .option('--json <file>', 'write all figures and all pairs as JSON (- for standard output)')
    .option('--html <file>', 'write the report as a page that needs nothing else')
    .option('--baseline <file>', 'compare with what was saved before: has the judge drifted?')
    .option('--save-baseline <file>', 'keep this run’s verdicts to compare later ones with')
    .option(
      `--add-examples [count]`,
      `show the judge corrected disagreements from now on, at most count (default ${MAX_EXAMPLES}) per scorer; changes its version`,
      amount,
    )
    .option('--min-agreement <share>', 'fail when a scorer agrees less', shareOfOne)
    .addHelpText('after', HELP)
    .action(async (options: CalibrateOptions) => {
      await calibrate(options);
    });
}

/** What is said while it runs goes to standard error: the report may be piped. */
const say = (text: string): void => {
  process.stderr.write(`${text}\n`);
};
const progress = (text: string): void => {
  if (process.stderr.isTTY) process.stderr.write(`\r\u001b[K${text}`);
};
const progressDone = (): void => {
  if (process.stderr.isTTY) process.stderr.write('\r\u001b[K');
};

async function calibrate(options: CalibrateOptions): Promise<void> {
  const settings = commandSettings({
    BEDROCK_MODEL_ID: options.model,
    MLFLOW_TRACKING_URI: options.trackingUri,
    MLFLOW_EXPERIMENT_NAME: options.experiment,
  });
  const scorers = scorersFor({ guidelines: settings.JUDGE_GUIDELINES }).filter(isJudgeScorer);
  const report = await compareWithPeople(options, settings, scorers);
  if (options.baseline !== undefined) {
    const baseline = parseBaseline(readGiven(options.baseline, 'The baseline'), options.baseline);
    report.drift = compareWithBaseline(report, baseline);
  }
  if (options.saveBaseline !== undefined) {
    writeFileSync(options.saveBaseline, `${JSON.stringify(baselineOf(report), null, 1)}\n`);
  }
  if (options.html !== undefined) writeFileSync(options.html, await calibrationPage(report));
  const json = `${JSON.stringify(report, null, 2)}\n`;
  if (options.json === '-') process.stdout.write(json);
  else {
    if (options.json !== undefined) writeFileSync(options.json, json);
    process.stdout.write(terminalReport(report));
  }
  if (options.addExamples !== undefined) writeExamples(report, scorers, options.addExamples);
  const written = [options.json === '-' ? undefined : options.json, options.html, options.saveBaseline];
  for (const file of written) if (file !== undefined) say(`written: ${file}`);
  judgeExitCode(report, options);
}

function judgeExitCode(report: CalibrationReport, { minAgreement }: CalibrateOptions): void {
  if (report.drift?.verdict === 'drifted') process.exitCode = 1;
  if (report.pairs.length === 0) {
    say('No label has a verdict beside it: there is nothing to compare.');
    for (const line of whyUnanswered(report.unanswered)) say(line);
    process.exitCode = 1;
  }
  if (minAgreement === undefined) return;
  const low = report.scorers.filter(({ agreement }) => agreement !== null && agreement.value < minAgreement);
  for (const { name, agreement } of low) {
    say(
      `${name} agrees in ${((agreement?.value ?? 0) * 100).toFixed(1)}% of the labels; expected: ${minAgreement * 100}% at least`,
    );
  }
  if (low.length > 0) process.exitCode = 1;
}

const MAX_REASON_CHARS = 300;

/** Each reason with what was said the first time. */
export function whyUnanswered(unanswered: readonly Unanswered[]): string[] {
  return [...Map.groupBy(unanswered, ({ reason }) => reason)].map(
    ([reason, items]) => `${reason} ${items.length}: ${singleLine(items[0]?.message ?? '').slice(0, MAX_REASON_CHARS)}`,
  );
}

/** @throws Error naming what the file was to be when it cannot be read */
function readGiven(file: string, what: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    throw new Error(`${what} cannot be read; got: ${(error as Error).message}; expected: a file of text`, {
      cause: error,
    });
  }
}

function compareWithPeople(
  options: CalibrateOptions,
  settings: CommandSettings,
  scorers: readonly JudgeScorer[],
): Promise<CalibrationReport> {
  if (options.labels !== undefined) {
    const items = parseLabels(readGiven(options.labels, 'The labels'), options.labels, scorers);
    return judgeItems(items, { kind: 'labels', where: options.labels }, options, settings, scorers);
  }
  if (options.anchors === true) {
    const items = readAnchors(projectPath(), scorers, options.scorer);
    return judgeItems(items, { kind: 'anchors', where: `${items.length} items` }, options, settings, scorers);
  }
  return readFromMlflow(options, settings, scorers);
}

async function judgeItems(
  all: readonly LabeledItem[],
  source: CalibrationReport['source'],
  options: CalibrateOptions,
  settings: CommandSettings,
  scorers: readonly JudgeScorer[],
): Promise<CalibrationReport> {
  const unknown = (options.scorer ?? []).filter((name) => !scorers.some((scorer) => scorer.name === name));
  if (unknown.length > 0) {
    throw new Error(
      `There is no scorer ${unknown.join(', ')}; there are ${scorers.map(({ name }) => name).join(', ')}`,
    );
  }
  const items = options.scorer === undefined ? all : all.filter(({ scorer }) => options.scorer?.includes(scorer));
  const open = items.filter(({ verdict }) => verdict === undefined);
  const given = givenPairs(items);
  if (open.length === 0) return calibrationReport({ source, scorers, pairs: given, unanswered: [] });
  const budgetUsd = options.budgetUsd === 0 ? undefined : options.budgetUsd;
  requireKnownPrice(settings.BEDROCK_MODEL_ID, budgetUsd, priceOptions(settings));
  const judge = await judgeOf(settings);
  // Asked one by one in production, a scorer's verdict does not depend on the others: the labelled ones are enough.
  const ask = settings.JUDGE_CALLS === 'separate' ? 'labelled' : options.ask;
  const most = mostUsd(open, { judge, scorers, ask });
  say(
    `asking ${judge.sourceId} about ${open.length} labels; it can cost ${most === null ? 'an unknown sum' : `${most.toFixed(2)} dollars at most`}`,
  );
  const asked = await askAll(open, {
    judge,
    scorers,
    ask,
    budgetUsd,
    progress: (done, of) => progress(`${done} of ${of} exchanges judged`),
  });
  progressDone();
  const { pairs, unanswered, spend } = asked;
  return calibrationReport({ source, scorers, pairs: [...given, ...pairs], unanswered, spend });
}

async function readFromMlflow(
  options: CalibrateOptions,
  settings: CommandSettings,
  scorers: readonly JudgeScorer[],
): Promise<CalibrationReport> {
  const name = settings.MLFLOW_EXPERIMENT_NAME ?? settings.SAGEMAKER_ENDPOINT_NAME;
  if (name === undefined) {
    throw new Error(
      'It is not known what to compare; expected: --labels FILE, --anchors, or an MLflow experiment (--experiment, MLFLOW_EXPERIMENT_NAME, SAGEMAKER_ENDPOINT_NAME)',
    );
  }
  const mlflow = mlflowOf(settings);
  try {
    const experiment = await findExperiment(mlflow.rest, name);
    if (experiment === undefined) {
      const facts = { got: name, expected: 'the name of an experiment with assessed traces' };
      throw new PermanentError('MlflowExperimentMissing', 'The experiment does not exist', facts);
    }
    const found = await readMlflowLabels(mlflow.rest, {
      experimentId: experiment.id,
      filter: options.filter,
      scorers,
      only: options.scorer,
      judge: options.judge,
      progress: (traces) => progress(`${traces} traces read`),
    });
    progressDone();
    const where = `experiment ${name} (${found.traces} traces)`;
    return calibrationReport({ source: { kind: 'mlflow', where }, scorers, ...found });
  } finally {
    mlflow.close();
  }
}

function writeExamples(report: CalibrationReport, scorers: readonly JudgeScorer[], count: boolean | number): void {
  const { examples, added } = addExamples(scorerExamples, report.pairs, count === true ? MAX_EXAMPLES : Number(count));
  const names = Object.keys(added);
  if (names.length === 0) {
    say(
      'no example was added: it takes a disagreement, with the reason of the person who corrected it, and a short text',
    );
    return;
  }
  const file = projectPath(EXAMPLES_FILE);
  writeFileSync(file, `${JSON.stringify(examples, null, 2)}\n`);
  for (const name of names) {
    const scorer = scorers.find((candidate) => candidate.name === name);
    const version =
      scorer === undefined ? '' : `, version ${withExamples(plain(scorer), examples[name] ?? []).version}`;
    const count = added[name]?.length ?? 0;
    say(`${name}: ${count} example${count === 1 ? '' : 's'} added${version}`);
  }
  say(`written: ${file}; deploy the stack to judge with them`);
}

/** The scorer as it is declared, without the examples it has in force. */
function plain(scorer: JudgeScorer): JudgeScorer {
  const { examples: _examples, ...rest } = scorer;
  return { ...rest, version: scorer.version.replace(/\+ex-[0-9a-f]+$/, '') };
}
