/** The traces with the worst verdicts as a page. */
import { bothEnds, excerpt } from '../../src/core/text/terminal-text.ts';
import { bold, exact, type Page, red, section } from '../cli/page.ts';
import type { StandingVerdict } from '../operate/standing-verdicts.ts';
import type { WorstTrace } from '../operate/worst.ts';

/** Characters of the rationale, and of a request or a reply. `--json` has all of them. */
const MAX_RATIONALE = 300;
const MAX_PREVIEW = 120;

/** @param linkOf a trace, or how to open it */
export const worstPage = (worst: readonly WorstTrace[], linkOf: (trace: WorstTrace) => string): Page =>
  worst.map((trace, index) => {
    const { failing, verdicts, time, variant, request, reply, severity, count } = trace;
    const several = count > 1 ? `${count} × ` : '';
    const when = time.slice(0, 16).replace('T', ' ');
    return section(
      '',
      bold(`${index + 1}. ${several}${severity}: ${failing.length} of ${verdicts} verdicts fail, ${when}, ${variant}`),
      [
        ...failing.map((verdict) => red(verdictText(verdict))),
        request && `request: ${bothEnds(request, MAX_PREVIEW)}`,
        reply && `reply: ${excerpt(reply, MAX_PREVIEW)}`,
        exact(linkOf(trace)),
      ],
    );
  });

/** Only of categories and numbers does the value say more than that the reply fails. */
function verdictText({ scorer, value, degree, by, source, rationale }: StandingVerdict): string {
  const person = by === 'person' ? ` (${source})` : '';
  const part = degree < 1 ? ' in part' : '';
  const words = part !== '' || typeof value === 'number' ? `${part} (${value})` : '';
  const why = rationale === '' ? '' : `: ${excerpt(rationale, MAX_RATIONALE)}`;
  return `${scorer} fails${words}${person}${why}`;
}
