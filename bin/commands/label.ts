/**
 * `inference-monitor label`: picks the traces whose labels are most informative about the true rate, and presents them
 * to people.
 */
import { PermanentError } from '../../src/core/errors/errors.ts';
import { checkNames } from '../../src/core/errors/nearest.ts';
import { percent } from '../../src/core/text/figure-text.ts';
import { block, type Part, table } from '../../src/core/text/page.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { isJudgeScorer } from '../../src/judge/scorers/scorer-set.ts';
import type { JudgeScorer } from '../../src/judge/types.ts';
import { type LabelPicks, pickedFilter, pickLabels } from '../../src/quality/calibration/pick-labels.ts';
import { queueName } from '../../src/quality/calibration/review-queue.ts';
import { filterOption, mlflowOptions, openMlflow } from '../cli/mlflow.ts';
import { command, numbers, option, options, parsed } from '../cli/options.ts';
import { type About, notice, print } from '../cli/output.ts';
import { assertHasTexts } from '../cli/settings.ts';
import { windowFrom } from '../cli/window.ts';
import { tracesQuery } from './reading-traces.ts';

/** At least one trace of each verdict. More than the maximum will not be labelled before the next call. */
const [FEWEST, MOST] = [2, 5000];

const OPTIONS = options(
  option('--scorer <names...>', 'the scorers to label', { required: true }),
  option('--next <count>', 'traces that are to wait for a label, per scorer', parsed(numbers.from(FEWEST, MOST), 50)),
  ...windowFrom(),
  filterOption(),
  ...mlflowOptions('print what was picked as JSON'),
);

export type Output = About & { picks: LabelPicks[] };

export default command('label', OPTIONS, async (flags) => {
  const opened = await openMlflow(flags);
  const { mlflow, settings, about } = opened;
  assertHasTexts(settings, 'label');
  const scorers = activeScorers(settings).filter(isJudgeScorer);
  checkNames('LLM scorer', flags.scorer, scorers);
  const query = tracesQuery(opened, flags, flags.filter);
  const chosen = scorers.filter(({ name }) => flags.scorer.includes(name)).map(withPass);
  notice(`writes to: MLflow, ${mlflow.target.baseUrl.origin}`);
  const picks: LabelPicks[] = [];
  for (const scorer of chosen) picks.push(await pickLabels(mlflow.rest, { ...query, scorer, next: flags.next }));
  print({ picks }, flags.json, picks.map(picksPart), about);
});

/** @throws PermanentError `ScorerWithoutPass` */
function withPass(scorer: JudgeScorer): JudgeScorer {
  if (scorer.values.kind !== 'number') return scorer;
  const facts = { got: scorer.name, expected: 'a scorer whose values pass or fail' };
  throw new PermanentError('ScorerWithoutPass', 'A scorer that answers with numbers has no rate to correct', facts);
}

function picksPart({ scorer, strata, waiting, picked, queue }: LabelPicks): Part {
  const rows = strata.map((one) => [
    one.name,
    ...[one.judged, one.labelled, one.waiting, one.picked].map(String),
    percent(one.probability, one.probability < 0.1 ? 1 : 0),
  ]);
  return block(
    `${scorer}: ${waiting.length} traces wait for a label, ${picked} of them picked now`,
    table(rows, ['verdict', 'judged', 'labelled', 'waiting', 'picked now', 'probability']),
    queue === null
      ? `This MLflow has no review queues. Find the traces by ${pickedFilter(scorer)} and assess them with the name ${scorer}.`
      : `They are in MLflow’s review queue “${queueName(scorer)}”.`,
  );
}
