/** A calibration report as a page. */
import type { Estimate } from '../../src/core/statistics/share.ts';
import { bracketed, dollars, percent } from '../../src/core/text/figure-text.ts';
import { block, facts, firstOf, type Page, type Part, section, table } from '../../src/core/text/page.ts';
import { excerpt } from '../../src/core/text/terminal-text.ts';
import type { AssessmentValue } from '../../src/mlflow/types.ts';
import type { Drift } from '../../src/quality/calibration/drift.ts';
import type { CalibrationReport, ScorerReport } from '../../src/quality/calibration/report.ts';
import type { LabeledVerdict, Unanswered } from '../../src/quality/calibration/types.ts';

import TEXTS from './calibrate-texts.json' with { type: 'json' };

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

const confusionPart = ({ confusion: { values, counts }, name }: ScorerReport): Part =>
  section(
    name,
    table(
      values.map((value, i) => [value, ...(counts[i] ?? []).map(String)]),
      ['people ↓  judge →', ...values],
    ),
  );

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
      block(
        facts({
          calls: spend.calls,
          'input tokens': spend.inputTokens,
          'output tokens': spend.outputTokens,
          cost: dollars(spend.usd),
        }),
      ),
  ];
}
