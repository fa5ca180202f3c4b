/** `inference-monitor calibrate`: measures how often the judge agrees with people. */

import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { readText } from '../../src/core/errors/read-text.ts';
import type { Estimate } from '../../src/core/statistics/share.ts';
import { bracketed, dollars, many, percent } from '../../src/core/text/figure-text.ts';
import { block, facts, firstOf, type Page, type Part, section, table } from '../../src/core/text/page.ts';
import { excerpt } from '../../src/core/text/terminal-text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { cascadeOf } from '../../src/judge/connect.ts';
import { judgeModels, judgeName } from '../../src/judge/judge-id.ts';
import { isJudgeScorer, isModelScorer, scorerExamples, scorersFor } from '../../src/judge/scorers/scorer-set.ts';
import type { AssessmentValue } from '../../src/mlflow/types.ts';
import { askAll, givenPairs, mostUsd } from '../../src/quality/calibration/ask-judge.ts';
import { compareWithBaseline, type Drift, parseBaseline } from '../../src/quality/calibration/drift.ts';
import { addExamples, MAX_EXAMPLES } from '../../src/quality/calibration/examples.ts';
import { parseLabels, readAnchors } from '../../src/quality/calibration/labels-file.ts';
import { readMlflowLabels } from '../../src/quality/calibration/mlflow-labels.ts';
import { type CalibrationReport, calibrationReport, type ScorerReport } from '../../src/quality/calibration/report.ts';
import type { LabeledVerdict, Unanswered } from '../../src/quality/calibration/types.ts';
import { RIGHT_VALUES, readTruthPairs } from '../../src/quality/calibration/window-labels.ts';
import { requireJudge } from '../cli/judge-access.ts';
import { experimentOptions, filterOption, openExperiment, openSettings } from '../cli/mlflow.ts';
import {
  command,
  type FlagsOf,
  JUDGE_BUDGET,
  judgeModelOption,
  numbers,
  oneOf,
  option,
  options,
  parsed,
} from '../cli/options.ts';
import { type About, EXIT, jsonOption, notice, print, progress } from '../cli/output.ts';
import { assertHasTexts, type CommandSettings, commandSettings } from '../cli/settings.ts';
import TEXTS from './calibrate-texts.json' with { type: 'json' };

/** Default maximum cost of one calibration. The anchor set costs about one dollar. */
const DEFAULT_BUDGET_USD = 20;

/** Only in a clone, because the functions are built with this file. */
const EXAMPLES_FILE = join('src', 'judge', 'scorers', 'scorer-examples.json');

const ASKED = ['production', 'labelled'] as const;

const OPTIONS = options(
  option('--labels <file>', 'labels in JSON lines, judged now').conflicts(['anchors', 'experiment', 'stack']),
  option('--anchors', 'the project’s anchor set, judged now').conflicts(['labels', 'experiment', 'stack']),
  option('--ground-truth', 'compare verdicts with true answers').conflicts(['labels', 'anchors', 'addExamples']),
  ...experimentOptions(),
  filterOption(),
  option('--judged-by <source>', 'from MLflow, only verdicts of this judge, e.g. bedrock:/<model id>'),
  judgeModelOption(),
  option('--scorer <names...>', 'only these scorers'),
  option('--ask <which>', 'all scorers that apply, or the labeled ones', oneOf(ASKED, 'production')),
  option('--budget <dollars>', JUDGE_BUDGET, parsed(numbers.amount, DEFAULT_BUDGET_USD)),
  jsonOption('print all figures and all pairs as JSON'),
  option('--baseline <file>', 'compare with the JSON of an earlier call, to detect that the judge has drifted'),
  option(
    '--add-examples [count]',
    `show the judge corrected disagreements, at most count (${MAX_EXAMPLES}) per scorer; changes the scorer's version`,
    (text): number | true => numbers.amount(text),
  ),
  option('--min-agreement <share>', 'fail if a scorer agrees less often', numbers.share),
);
type Flags = FlagsOf<typeof OPTIONS>;

/** With `--labels` and `--anchors`, without an endpoint. */
export type Output = CalibrationReport & Partial<About>;

export default command('calibrate', OPTIONS, async (flags) => {
  // A file and the anchor set are of no endpoint.
  if (flags.labels !== undefined || flags.anchors) {
    return calibrate(flags, commandSettings({ BEDROCK_MODEL_ID: flags.judgeModel }), judgeItems);
  }
  const { settings, stack } = await openSettings(flags);
  await calibrate(flags, settings, readFromMlflow, stack?.about);
});

/** Compares the judge with people and with the baseline, prints the report, and sets the exit code. */
async function calibrate(
  flags: Flags,
  settings: CommandSettings,
  read: (flags: Flags, settings: CommandSettings) => Promise<CalibrationReport>,
  about?: About,
): Promise<void> {
  const { addExamples: examples, baseline: file, minAgreement = 0, json } = flags;
  // Before the judge costs money.
  if (examples !== undefined) {
    assertHasTexts(settings, 'calibrate --add-examples');
    requireClone(process.cwd());
  }
  const report = await read(flags, settings);
  if (file !== undefined)
    report.drift = compareWithBaseline(report, parseBaseline(readText(file, 'The baseline'), file));
  print<CalibrationReport>(report, json, calibrationPage(report), about);
  if (examples !== undefined) writeExamples(report, settings, examples);
  if (report.pairs.length === 0) notice('No label has a verdict, so nothing can be compared.');
  if (report.pairs.length === 0 || report.drift?.verdict === 'drifted') process.exitCode = EXIT.found;
  for (const { name, agreement } of report.scorers) {
    if (agreement === null || agreement.value >= minAgreement) continue;
    const got = percent(agreement.value);
    notice(`${name} agrees with too few labels; got: ${got}; expected: at least ${minAgreement * 100}%`);
    process.exitCode = EXIT.found;
  }
}

/** Asks the judge about the items of the file, or of the anchor set. */
async function judgeItems({ labels, scorer: only, budget, ask }: Flags, settings: CommandSettings) {
  const scorers = activeScorers(settings).filter(isModelScorer);
  const labeled = labels !== undefined && parseLabels(readText(labels, 'The labels file'), labels, scorers);
  const all = labeled || readAnchors(scorers, only);
  const kind = labeled ? ('labels' as const) : ('anchors' as const);
  const source = { kind, where: labels ?? `${all.length} items` };
  checkNames('LLM scorer', only, scorers);
  const items = only === undefined ? all : all.filter(({ scorer }) => only.includes(scorer));
  const open = items.filter(({ verdict }) => verdict === undefined);
  const given = givenPairs(items);
  if (open.length === 0) return calibrationReport({ source, scorers, pairs: given, unanswered: [] });
  const budgetUsd = budget === 0 ? undefined : budget;
  await requireJudge(settings, budget);
  const judge = cascadeOf(settings);
  const most = mostUsd(open, { judge, scorers, ask });
  const asked = `Asking ${judgeModels(settings).map(judgeName).join(' behind ')} about ${many(open.length, 'label')}`;
  notice(`${asked}, which costs ${most === 0 ? 'nothing' : `at most ${dollars(most)}`}.`);
  const told = (done: number, of: number): void => progress.show(`${done} of ${of} exchanges judged`);
  const { pairs, ...found } = await askAll(open, { judge, scorers, ask, budgetUsd, progress: told });
  return calibrationReport({ source, scorers, pairs: [...given, ...pairs], ...found });
}

async function readFromMlflow(options: Flags, settings: CommandSettings): Promise<CalibrationReport> {
  const all = activeScorers(settings);
  const { mlflow, experiment } = await openExperiment(settings);
  const query = {
    experimentId: experiment.id,
    filter: options.filter,
    only: options.scorer,
    judge: options.judgedBy,
    progress: (traces: number) => progress.show(`${traces} traces read`),
  };
  const whereIn = (traces: number): string => `experiment ${experiment.name} (${traces} traces)`;
  if (options.groundTruth) {
    const { pairs, traces } = await readTruthPairs(mlflow.rest, { ...query, scorers: all });
    const source = { kind: 'groundTruth', where: whereIn(traces) } as const;
    const scorers = all.map(({ name, version }) => ({ name, version, values: RIGHT_VALUES }));
    return calibrationReport({ source, scorers, pairs, unanswered: [] });
  }
  const scorers = all.filter(isJudgeScorer);
  const found = await readMlflowLabels(mlflow.rest, { ...query, scorers });
  return calibrationReport({ source: { kind: 'mlflow', where: whereIn(found.traces) }, scorers, ...found });
}

/** @throws PermanentError `NoClone` */
function requireClone(folder: string): void {
  if (existsSync(join(folder, dirname(EXAMPLES_FILE)))) return;
  const facts = { got: folder, expected: `a clone of the project, with ${EXAMPLES_FILE}, as the working directory` };
  throw new PermanentError('NoClone', '--add-examples changes the sources that the stack is built from', facts);
}

function writeExamples(report: CalibrationReport, settings: CommandSettings, count: boolean | number): void {
  const { examples, added } = addExamples(scorerExamples, report.pairs, count === true ? MAX_EXAMPLES : Number(count));
  if (Object.keys(added).length === 0) {
    notice('No example was added. An example is a disagreement on a short text that a person corrected with a reason.');
    return;
  }
  writeFileSync(EXAMPLES_FILE, `${JSON.stringify(examples, null, 2)}\n`);
  const scorers = scorersFor({ guidelines: settings.JUDGE_GUIDELINES, examples });
  for (const [name, { length }] of Object.entries(added)) {
    const version = scorers.find((scorer) => scorer.name === name)?.version;
    const suffix = version === undefined ? '' : `, version ${version}`;
    notice(`${name}: ${many(length, 'example')} added${suffix}`);
  }
  notice(`Wrote ${EXAMPLES_FILE}; deploy the stack to judge with these examples`);
}

// ------------------------------------------------------------------------------------------------------------- page

/** Maximum number of disagreements on the page. The JSON contains all of them. */
const MAX_SHOWN = 20;
const MAX_TEXT_CHARS = 160;
const MAX_REASON_CHARS = 300;

const shareText = (share: Estimate | null): string => bracketed(share, percent);

/** Notes, each with the scorers that it applies to. */
const sharedNotes = (scorers: readonly ScorerReport[]): string[] => {
  const notes = scorers.flatMap(({ name, notes: own }) => own.map((note) => ({ name, note })));
  return [...Map.groupBy(notes, ({ note }) => note)].map(
    ([note, group]) => `${group.map(({ name }) => name).join(', ')}: ${note}`,
  );
};

function confusionPart({ confusion: { values, counts }, name }: ScorerReport): Part {
  const rows = values.map((value, i) => [value, ...(counts[i] ?? []).map(String)]);
  return section(name, table(rows, ['people ↓  judge →', ...values]));
}

function disagreementPart(pair: LabeledVerdict): Part {
  const said = (value: AssessmentValue, rationale?: string): string =>
    `${value}${rationale === undefined ? '' : `: ${excerpt(rationale, MAX_TEXT_CHARS)}`}`;
  const rows = [
    pair.request !== '' && ['request', excerpt(pair.request, MAX_TEXT_CHARS)],
    ['reply', excerpt(pair.reply, MAX_TEXT_CHARS)],
    ['people', said(pair.label, pair.labelRationale)],
    ['judge', said(pair.verdict, pair.verdictRationale)],
  ];
  return block(`${pair.scorer}  ${pair.id}`, [table(rows)]);
}

function driftPart(drift: Drift): Part {
  const { baseline, verdict, changed, items, pValue, onlyInBaseline, onlyNow } = drift;
  const [before, now] = [drift.agreementBefore, drift.agreementNow].map(shareText);
  return section(
    `Since the baseline of ${baseline.generatedAt} (${Object.keys(baseline.judges).join(', ')})`,
    TEXTS.drift[verdict],
    `${changed.length} of ${items} verdicts changed. Agreement with the labels was ${before} and is ${now} (McNemar’s exact test: p = ${pValue.toFixed(3)}).`,
    onlyInBaseline + onlyNow > 0 && `not compared: ${onlyInBaseline} only in the baseline, ${onlyNow} only now`,
    ...changed.map(({ scorer, id, before, now, label }) => `${scorer}  ${id}: ${before} → ${now} (people: ${label})`),
  );
}

/** Each reason why labels have no verdict, with their number and its first message. */
const leftOutPart = (unanswered: readonly Unanswered[]): Part =>
  block(
    ...[...Map.groupBy(unanswered, ({ reason }) => reason)].map(
      ([reason, items]) => `Left out: ${reason} ${items.length}: ${excerpt(items[0]?.message ?? '', MAX_REASON_CHARS)}`,
    ),
  );

/** Returns TPR and TNR with the good value as the positive one. */
const ofGood = ({ good, positive, tpr, tnr }: ScorerReport): (Estimate | null)[] =>
  good === undefined || good === positive ? [tpr, tnr] : [tnr, tpr];

export function calibrationPage(report: CalibrationReport): Page {
  const { scorers, pairs, unanswered, spend, drift, overall, source, judges } = report;
  const rows = scorers.map((scorer) => [
    scorer.name,
    String(scorer.n),
    shareText(scorer.agreement),
    ...[scorer.kappa, scorer.weightedKappa].map((kappa) => bracketed(kappa, (value) => value.toFixed(2))),
    ...ofGood(scorer).map(shareText),
  ]);
  const all = ['all', String(overall.n), shareText(overall.agreement), '', '', '', ''];
  const { calls, inputTokens, outputTokens } = spend ?? {};
  const disagreements = pairs.filter(({ agrees }) => !agrees).map(disagreementPart);
  return [
    `${TEXTS.titles[source.kind]} ${source.where}`,
    Object.entries(judges).map(([judge, count]) => `${judge}: ${count} verdicts`),
    block(
      table([...rows, all], ['scorer', 'labels', 'agreement', "Cohen's κ", 'weighted κ', 'TPR', 'TNR']),
      '95% intervals are in parentheses.',
    ),
    ...scorers.filter(({ n }) => n > 0).map(confusionPart),
    block(...sharedNotes(scorers)),
    leftOutPart(unanswered),
    pairs.length > 0 && block(`Disagreements: ${disagreements.length}`),
    ...firstOf(MAX_SHOWN, disagreements),
    drift && driftPart(drift),
    spend &&
      block(facts({ calls, 'input tokens': inputTokens, 'output tokens': outputTokens, cost: dollars(spend.usd) })),
  ];
}
