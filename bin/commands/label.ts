/** `inference-monitor label`: picks the traces whose labels tell most about the true rate, and puts them before people. */
import { Command } from 'commander';
import { PermanentError } from '../../src/core/errors/errors.ts';
import { tableText } from '../../src/core/text/terminal-text.ts';
import { checkNames } from '../../src/core/values/nearest.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../src/judge/types.ts';
import { type LabelPicks, pickedFilter, pickLabels } from '../../src/quality/calibration/pick-labels.ts';
import { queueName } from '../../src/quality/calibration/review-queue.ts';
import { jsonOption, type TextOptions, terminal, writeJson } from '../cli/output.ts';
import { FROM_OPTION, TO_OPTION, type WindowFlags, windowOfFlags } from '../cli/window.ts';
import { progress, sayLeftOut, withExperiment } from './calibration-data.ts';
import { countWithin } from './numbers.ts';
import { commandSettings } from './settings.ts';

interface LabelFlags extends WindowFlags {
  next: number;
  scorer: string[];
  filter?: string;
  experiment?: string;
  trackingUri?: string;
  json?: boolean;
}

/** One of each verdict at least; more than this nobody labels before the next call. */
const [FEWEST, MOST] = [2, 5000];

const HELP = `
Reads the judged traces of the window, and makes sure that --next of them wait for a person's label: those that are missing are
picked, at random within what the judge passes and what it fails. Each trace keeps the window and its probability in the tag
label_<scorer>, by which rates and calibrate weigh its label. Where MLflow has review queues (3.14 and newer), the traces are in the queue
“labels: <scorer>”. Called again, it replaces those that have a label by now. docs/labels.md says how to label.

Examples:
  inference-monitor label --next 50 --scorer relevance_to_query
  inference-monitor label --next 100 --scorer safety refusal --from 2026-11-20 --to 2026-11-21`;

export function labelCommand(): Command {
  return new Command('label')
    .requiredOption('--scorer <names...>', 'the scorers to label')
    .option('--next <count>', 'how many traces are to wait for a label, per scorer', countWithin(FEWEST, MOST), 50)
    .option(...FROM_OPTION, '7d')
    .option(...TO_OPTION)
    .option('--filter <expression>', 'MLflow’s trace filter, e.g. "tag.sagemaker_variant_name = \'AllTraffic\'"')
    .option('--experiment <name>', 'MLflow experiment (default: MLFLOW_EXPERIMENT_NAME, else SAGEMAKER_ENDPOINT_NAME)')
    .option('--tracking-uri <uri>', 'MLflow (default: MLFLOW_TRACKING_URI)')
    .addOption(jsonOption('print what was picked as JSON'))
    .addHelpText('after', HELP)
    .action(label);
}

async function label(flags: LabelFlags): Promise<void> {
  const settings = commandSettings({
    MLFLOW_TRACKING_URI: flags.trackingUri,
    MLFLOW_EXPERIMENT_NAME: flags.experiment,
  });
  const scorers = activeScorers(settings).filter(isJudgeScorer);
  const names = scorers.map(({ name }) => name);
  checkNames('LLM scorer', flags.scorer, names);
  const chosen = scorers.filter(({ name }) => flags.scorer.includes(name)).map(withPass);
  const window = windowOfFlags(flags);
  await withExperiment(settings, async (mlflow, experiment) => {
    const all: LabelPicks[] = [];
    for (const scorer of chosen) {
      const query = { experimentId: experiment.id, filter: flags.filter, shadow: settings.SHADOW_VARIANTS, ...window };
      const read = (traces: number): void => progress(`${scorer.name}: ${traces} traces read`);
      all.push(await pickLabels(mlflow.rest, { ...query, scorer, next: flags.next, progress: read }));
      progress('');
    }
    sayLeftOut({ filter: flags.filter, shadow: settings.SHADOW_VARIANTS });
    if (flags.json) writeJson('label', all);
    else process.stdout.write(all.map((picks) => picksText(picks, terminal())).join('\n'));
  });
}

/** @throws PermanentError `ScorerWithoutPass` */
function withPass(scorer: JudgeScorer): JudgeScorer {
  if (scorer.values.kind !== 'number') return scorer;
  const facts = { got: scorer.name, expected: 'a scorer whose values pass or fail' };
  throw new PermanentError('ScorerWithoutPass', 'A scorer that answers with numbers has no rate to correct', facts);
}

const HEAD = ['verdict', 'judged', 'labelled', 'waiting', 'picked now', 'probability'];

const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)}%`;

function picksText({ scorer, strata, waiting, picked, queue }: LabelPicks, out: TextOptions): string {
  const rows = strata.map((one) => [
    one.name,
    ...[one.judged, one.labelled, one.waiting, one.picked].map(String),
    percent(one.probability),
  ]);
  const where =
    queue === null
      ? `This MLflow has no review queues. Find the traces by ${pickedFilter(scorer)} and assess them with the name ${scorer}.`
      : `They are in MLflow’s review queue “${queueName(scorer)}”.`;
  return [
    `${scorer}: ${waiting.length} traces wait for a label, ${picked} of them picked now`,
    `${tableText(HEAD, rows, out)}${where}`,
    '',
  ].join('\n');
}
