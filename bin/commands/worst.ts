/** `inference-monitor worst`: the traces with the worst verdicts, with the judge's words and links. */
import { checkNames } from '../../src/core/errors/nearest.ts';
import { time } from '../../src/core/text/figure-text.ts';
import { block, bold, exact, type Page, red } from '../../src/core/text/page.ts';
import { bothEnds, excerpt } from '../../src/core/text/terminal-text.ts';
import { activeScorers } from '../../src/judge/active-scorers.ts';
import { webPageOf } from '../../src/mlflow/tracking-uri.ts';
import { objectivesOf } from '../../src/quality/objectives.ts';
import { windowText } from '../../src/quality/rates-text.ts';
import { mlflowOptions, openMlflow } from '../cli/mlflow.ts';
import { command, numbers, option, options, parsed } from '../cli/options.ts';
import { type About, notice, print } from '../cli/output.ts';
import { commandText } from '../cli/run-text.ts';
import { HOW_TO_READ } from '../cli/settings.ts';
import { windowFrom } from '../cli/window.ts';
import type { StandingVerdict } from '../operate/standing-verdicts.ts';
import { readWorst, type WorstTrace, type WorstTraces } from '../operate/worst.ts';
import { tagFilter } from './dataset.ts';
import { tracesQuery } from './reading-traces.ts';

const MOST = 1000;

const OPTIONS = options(
  option('--scorer <names...>', 'only verdicts of these scorers'),
  option('--variant <name>', 'only this variant of the endpoint, which may be a shadow variant'),
  ...windowFrom(),
  option('--limit <count>', 'how many traces to print', parsed(numbers.from(1, MOST), 10)),
  ...mlflowOptions(),
);

export type Output = About & WorstTraces;

export default command('worst', OPTIONS, async (flags) => {
  const opened = await openMlflow(flags);
  const { mlflow, settings, about } = opened;
  const scorers = activeScorers(settings);
  checkNames('scorer', flags.scorer, scorers);
  const filter = flags.variant && tagFilter(`sagemaker_variant_name=${flags.variant}`);
  const query = tracesQuery(opened, flags, filter);
  const found = await readWorst(mlflow.rest, {
    ...query,
    scorers,
    objectives: objectivesOf(settings),
    only: flags.scorer,
    limit: flags.limit,
    server: webPageOf(mlflow.target),
  });
  if (settings.CONTENT === 'none') notice(`Traces have no texts, since CONTENT=none. ${HOW_TO_READ}`);
  const of = windowText({ fromMs: query.fromMs ?? 0, toMs: query.toMs ?? Date.now() });
  const total = `${of}: ${found.traces} traces, ${found.judged} of them judged, ${found.failing} with a failing verdict`;
  const linkOf = ({ url, traceId }: WorstTrace): string =>
    url ?? commandText(['open', traceId], about.stack ?? undefined);
  print<WorstTraces>(found, flags.json, [...worstPage(found.worst, linkOf), block(total)], about);
});

/** Maximum number of characters of the rationale, and of a request or a reply. `--json` contains them completely. */
const MAX_RATIONALE = 300;
const MAX_PREVIEW = 120;

/** @param linkOf a trace, or how to open it */
export const worstPage = (worst: readonly WorstTrace[], linkOf: (trace: WorstTrace) => string): Page =>
  worst.map((trace, index) => {
    const { failing, verdicts, time: at, variant, request, reply, severity, count } = trace;
    const several = count > 1 ? `${count} × ` : '';
    return block(
      bold(
        `${index + 1}. ${several}${severity}: ${failing.length} of ${verdicts} verdicts fail, ${time(at)}, ${variant}`,
      ),
      [
        ...failing.map((verdict) => red(verdictText(verdict))),
        request && `request: ${bothEnds(request, MAX_PREVIEW)}`,
        reply && `reply: ${excerpt(reply, MAX_PREVIEW)}`,
        exact(linkOf(trace)),
      ],
    );
  });

/** Only values of categories and numbers add information to the failure. */
function verdictText({ scorer, value, degree, by, source, rationale }: StandingVerdict): string {
  const person = by === 'person' ? ` (${source})` : '';
  const part = degree < 1 ? ' in part' : '';
  const words = part !== '' || typeof value === 'number' ? `${part} (${value})` : '';
  const why = rationale === '' ? '' : `: ${excerpt(rationale, MAX_RATIONALE)}`;
  return `${scorer} fails${words}${person}${why}`;
}
