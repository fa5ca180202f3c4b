/** `inference-monitor worst`: the traces with the worst verdicts, with the judge's words and links. */
import { checkNames } from '../../src/core/errors/nearest.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import { objectivesOf } from '../../src/quality/objectives.ts';
import { windowText } from '../../src/quality/rates-text.ts';
import { mlflowOptions, withMlflow } from '../cli/mlflow.ts';
import { command, numbers, option, options, parsed } from '../cli/options.ts';
import { notice, print } from '../cli/output.ts';
import { section } from '../cli/page.ts';
import { commandText } from '../cli/run-text.ts';
import { HOW_TO_READ } from '../cli/settings.ts';
import { windowFrom, windowOfFlags } from '../cli/window.ts';
import { readWorst, type WorstTrace, type WorstTraces } from '../operate/worst.ts';
import { tagFilter } from './dataset.ts';
import { progress, sayLeftOut } from './reading-traces.ts';
import { worstPage } from './worst-text.ts';

const MOST = 1000;

const OPTIONS = options(
  option('--scorer <names...>', 'only verdicts of these scorers'),
  option('--variant <name>', 'only this variant of the endpoint, which may be a shadow variant'),
  ...windowFrom('7d'),
  option('--limit <count>', 'how many traces to print', parsed(numbers.from(1, MOST), 10)),
  ...mlflowOptions(),
);

export default command('worst', OPTIONS, (flags) =>
  withMlflow(flags, async ({ mlflow, experiment, settings, about }) => {
    const scorers = activeScorers(settings);
    const names = scorers.map(({ name }) => name);
    checkNames('scorer', flags.scorer, names);
    const filter = flags.variant && tagFilter(`sagemaker_variant_name=${flags.variant}`);
    const query = { experimentId: experiment.id, filter, shadow: settings.SHADOW_VARIANTS, ...windowOfFlags(flags) };
    const found = await readWorst(mlflow.rest, {
      ...query,
      scorers,
      objectives: objectivesOf(settings),
      only: flags.scorer,
      limit: flags.limit,
      server: webPageOf(mlflow.target),
      progress: (traces) => progress(`${traces} traces read`),
    });
    progress('');
    sayLeftOut(query);
    if (settings.CONTENT === 'none') notice(`Traces have no texts, since CONTENT=none. ${HOW_TO_READ}`);
    const of = windowText({ fromMs: 0, toMs: Date.now(), ...windowOfFlags(flags) });
    const total = `${of}: ${found.traces} traces, ${found.judged} of them judged, ${found.failing} with a failing verdict`;
    const linkOf = ({ url, traceId }: WorstTrace): string =>
      url ?? commandText(['open', traceId], about.stack ?? undefined);
    print<WorstTraces>(found, flags.json, [...worstPage(found.worst, linkOf), section('', total)], about);
  }),
);
