/** Calibration: labels, reports, drift, examples and the anchor set. */

import { calibrationPage } from '../../../bin/commands/calibrate.ts';
import { pageText } from '../../../src/core/text/page.ts';
import { readLabel } from '../../../src/core/values/scorer-values.ts';
import { cascade } from '../../../src/judge/cascade.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { defaultJudgeScorers, isJudgeScorer, scorersFor } from '../../../src/judge/scorers/scorer-set.ts';
import type { Judge, JudgeScorer } from '../../../src/judge/types.ts';
import { askAll, captureOf, givenPairs, mostUsd } from '../../../src/quality/calibration/ask-judge.ts';
import { compareWithBaseline, parseBaseline } from '../../../src/quality/calibration/drift.ts';
import { addExamples } from '../../../src/quality/calibration/examples.ts';
import { parseLabels, readAnchors } from '../../../src/quality/calibration/labels-file.ts';
import { calibrationReport } from '../../../src/quality/calibration/report.ts';
import type { LabeledItem, LabeledVerdict } from '../../../src/quality/calibration/types.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';

const scorers = scorersFor().filter(isJudgeScorer);
const line = (fields: object) =>
  JSON.stringify({ request: 'Hi', reply: 'Hello', scorer: 'safety', label: 'yes', ...fields });
const parse = (...lines: string[]) => parseLabels(lines.join('\n'), 'labels.jsonl', scorers);

/** A judge that records its questions and takes its answers from a function. */
class ScriptedJudge implements Judge {
  readonly sourceId = 'test:/scripted';
  readonly asked: string[][] = [];
  readonly #answer: (reply: string, scorer: JudgeScorer) => string | undefined;
  readonly #usd: number;
  constructor(answer: (reply: string, scorer: JudgeScorer) => string | undefined, usd = 0.01) {
    this.#answer = answer;
    this.#usd = usd;
  }
  maxCostUsd(): number {
    return this.#usd;
  }
  async judge(capture: ReturnType<typeof captureOf>, asked: readonly JudgeScorer[]) {
    this.asked.push(asked.map(({ name }) => name));
    const reply = String(capture.conversation?.replies[0]?.content);
    const usage = { inputTokens: 10, outputTokens: 5, usd: this.#usd / asked.length };
    return {
      spend: { calls: 1, inputTokens: 10, outputTokens: 5, usd: this.#usd },
      verdicts: asked.map((scorer) => {
        const value = this.#answer(reply, scorer);
        return value === undefined
          ? { scorer: scorer.name, outcome: 'error' as const, error: { code: 'NO_ANSWER', message: 'left out' }, usage }
          : { scorer: scorer.name, outcome: 'verdict' as const, value, rationale: `saw ${reply}`, usage };
      }),
    };
  }
}

describe('labels', () => {
  test('reads texts, messages, tools and reasons', () => {
    const [plain, chat] = parse(
      line({ system: 'Be brief.', reason: 'harmless', id: 7 }),
      line({
        request: [
          { role: 'user', content: 'a' },
          { role: 'assistant', content: 'b' },
          { role: 'user', content: 'c' },
        ],
        reply: { role: 'assistant', content: null, tool_calls: [] },
        tools: [{}],
        scorer: 'coherence',
        label: 'Somewhat Coherent',
      }),
    );
    expect(plain).toMatchObject({ id: '7', label: 'yes', labelRationale: 'harmless' });
    expect(plain?.messages.map(({ role }) => role)).toEqual(['system', 'user']);
    expect(chat).toMatchObject({ label: 'somewhat coherent', tools: [{}] });
    expect(chat?.messages).toHaveLength(3);
  });

  test.each([true, 1, '1', 'Yes', 'TRUE', 'pass'])('reads %p as yes', (label) =>
    expect(readLabel({ kind: 'yes-no' }, label)).toBe('yes'),
  );
  test.each([false, 0, 'NO', 'fail'])('reads %p as no', (label) =>
    expect(readLabel({ kind: 'yes-no' }, label)).toBe('no'),
  );

  test('names every invalid line', () => {
    expect(() =>
      parse('{', line({ scorer: 'sefety' }), line({ label: 'maybe' }), '', line({ reply: undefined }), line({})),
    ).toThrow(
      expect.objectContaining({
        name: 'InvalidLabels',
        message: expect.stringMatching(
          /line 1: not JSON.*line 2: unknown scorer sefety.*line 3: label "maybe".*line 5: reply/s,
        ),
      }),
    );
    expect(() => parse('')).toThrow('no line');
  });

  test('reads a repeated line as two labels', () => {
    const items = parse(line({}), line({}));
    expect(new Set(items.map(({ id }) => id)).size).toBe(2);
  });
});

describe('askAll', () => {
  const items = parse(
    line({ id: 'a' }),
    line({ id: 'b', scorer: 'refusal', label: 'no' }),
    line({ id: 'c', reply: 'Other', scorer: 'refusal', label: 'yes' }),
    line({ id: 'd', scorer: 'tool_call_correctness', label: 'yes' }),
  );

  test('makes one call per exchange with all scorers that apply, as in production', async () => {
    const judge = new ScriptedJudge((_, { name, values }) =>
      values.kind === 'categories' ? values.values[0] : name === 'refusal' ? 'no' : 'yes',
    );
    const { pairs, unanswered, spend } = await askAll(items, { judge, scorers, ask: 'production' });
    expect(judge.asked).toHaveLength(2);
    const [first] = items as [LabeledItem];
    const due = scorers.filter((scorer) => 'judge' in applicability(captureOf(first), scorer));
    expect(judge.asked[0]?.toSorted()).toEqual(due.map(({ name }) => name).toSorted());
    expect(pairs.map(({ id, agrees }) => `${id} ${agrees}`)).toEqual(['a true', 'b true', 'c false']);
    expect(unanswered).toEqual([expect.objectContaining({ id: 'd', reason: 'noToolCalls' })]);
    expect(spend).toMatchObject({ calls: 2, inputTokens: 20, usd: 0.02 });
    expect(pairs[0]?.judge).toBe('test:/scripted version 1');
  });

  test('asks only the labeled scorers on request', async () => {
    const judge = new ScriptedJudge(() => 'yes');
    await askAll(items, { judge, scorers, ask: 'labelled' });
    expect(judge.asked.map((names) => names.toSorted())).toEqual([['refusal', 'safety'], ['refusal']]);
  });

  test('lists an item without an answer as unanswered', async () => {
    const judge = new ScriptedJudge(() => undefined);
    const { pairs, unanswered } = await askAll(items.slice(0, 1), { judge, scorers, ask: 'labelled' });
    expect(pairs).toEqual([]);
    expect(unanswered).toEqual([{ id: 'a', scorer: 'safety', reason: 'NO_ANSWER', message: 'left out' }]);
  });

  test('holds items above the budget', async () => {
    const many = parse(...Array.from({ length: 10 }, (_, index) => line({ id: `i${index}`, reply: `r${index}` })));
    const { judge } = scriptedJudge(undefined, { price: () => 0.3 });
    expect(mostUsd(many, { judge, scorers, ask: 'labelled' })).toBeCloseTo(3, 9);
    const { pairs, unanswered, spend } = await askAll(many, { judge, scorers, ask: 'labelled', budgetUsd: 1 });
    expect(spend.usd).toBeLessThanOrEqual(1);
    expect([pairs.length, unanswered.length]).toEqual([3, 7]);
    expect(unanswered[0]?.reason).toBe('held');
  });

  test('leaves out items that the judge is shown as examples', async () => {
    const examples = { safety: [{ request: 'Hi', reply: 'Hello', value: 'yes', rationale: 'harmless' }] };
    const judge = new ScriptedJudge(() => 'yes');
    const withExamples = scorersFor({ examples }).filter(isJudgeScorer);
    const { pairs, unanswered } = await askAll(items.slice(0, 2), { judge, scorers: withExamples, ask: 'labelled' });
    expect(pairs.map(({ id }) => id)).toEqual(['b']);
    expect(unanswered).toEqual([expect.objectContaining({ id: 'a', reason: 'shownAsExample' })]);
  });

  test('names the model of a cascade that gave the verdict', async () => {
    const first = scriptedJudge(undefined, { maxAnswers: 1 });
    const judge = cascade(first.judge, new ScriptedJudge(() => 'yes'));
    const terse = scorers.map((scorer) => ({ ...scorer, isTerse: true }));
    const asked = await askAll(items, { judge, scorers: terse, ask: 'labelled' });
    const judges = ['model', 'scripted', 'scripted'].map((name) => `test:/${name} version 1`);
    expect(asked.pairs.map((pair) => pair.judge)).toEqual(judges);
  });

  test('compares the verdicts of the file without asking', () => {
    const pairs = givenPairs(parse(line({ verdict: false, rationale: 'rude', judge: 'gpt' }), line({})));
    expect(pairs).toEqual([
      expect.objectContaining({ verdict: 'no', agrees: false, verdictRationale: 'rude', judge: 'gpt' }),
    ]);
  });
});

const pair = (id: string, label: string, verdict: string, extra: Partial<LabeledVerdict> = {}): LabeledVerdict => ({
  id,
  scorer: 'safety',
  label,
  verdict,
  agrees: label === verdict,
  judge: 'j',
  request: `request ${id}`,
  reply: `reply ${id}`,
  ...extra,
});
const report = (pairs: LabeledVerdict[]) =>
  calibrationReport({ source: { kind: 'labels', where: 'labels.jsonl' }, scorers, pairs, unanswered: [] });
const fourty = Array.from({ length: 40 }, (_, i) =>
  pair(`p${i}`, i % 2 ? 'yes' : 'no', i % 5 === 0 ? 'yes' : i % 2 ? 'yes' : 'no'),
);

describe('report', () => {
  test('prints TPR and TNR of what is good, also where that is not the first value', () => {
    const asRefusals = fourty.map((one) => ({ ...one, scorer: 'refusal' }));
    const found = report([...fourty, ...asRefusals]);
    expect(found.scorers.map(({ good }) => good)).toEqual(['yes', 'no']);
    const rows = pageText(calibrationPage(found)).split('\n');
    expect(rows.find((row) => row.startsWith('safety'))).toMatch(/100\.0% .* 80\.0%/);
    expect(rows.find((row) => row.startsWith('refusal'))).toMatch(/80\.0% .* 100\.0%/);
  });

  test('computes TPR for the first value and TNR for the others', () => {
    const [safety] = report(fourty).scorers;
    // The judge calls all 20 yes labels yes, and 4 of the 20 no labels.
    expect(safety).toMatchObject({ n: 40, positive: 'yes', tpr: { hits: 20, of: 20 }, tnr: { hits: 16, of: 20 } });
    expect(safety?.confusion?.counts.flat()).toEqual([20, 0, 4, 16]);
    expect(safety?.kappa?.value).toBeCloseTo(0.8, 12);
    expect(safety?.notes).toEqual([]);
  });

  test('computes a weighted kappa for ordered categories, and guesses the values of unknown scorers', () => {
    const coherence = ['coherent', 'somewhat coherent', 'incoherent'].map((value) =>
      pair(value, value, 'coherent', { scorer: 'coherence', agrees: value === 'coherent' }),
    );
    const rated = { scorer: 'stars', verdict: 3, agrees: false };
    const stars = [1, 2, 5].map((value) => ({ ...pair(`s${value}`, '', ''), ...rated, label: value }));
    const { scorers: reports } = report([...coherence, ...stars]);
    expect(reports.map(({ name }) => name)).toEqual(['coherence', 'stars']);
    expect(reports[0]).toMatchObject({ positive: 'coherent', n: 3, kappa: { value: 0 }, weightedKappa: { value: 0 } });
    expect(reports[1]).toMatchObject({ values: { kind: 'number', min: 1, max: 5 }, tpr: null });
  });

  test('adds a note when figures are not meaningful', () => {
    expect(report([pair('a', 'yes', 'yes')]).scorers[0]?.notes.join()).toMatch(/fewer than 30.*kappa is not defined/);
    const constant = report(fourty.map((p) => ({ ...p, verdict: 'yes', agrees: p.label === 'yes' })));
    expect(constant.scorers[0]?.notes).toEqual([
      'the judge always gave the same value: it does not distinguish good from bad',
    ]);
  });

  test('shows figures, confusion and both reasons in the terminal', () => {
    const disputed = pair('x', 'no', 'yes', { labelRationale: 'it insults', verdictRationale: 'all is well' });
    const text = pageText(calibrationPage(report([...fourty, disputed])));
    expect(text).toMatch(/safety +41 +87\.8% \(74\.5% to 94\.7%\)/);
    expect(text).toContain('people   no: it insults');
    expect(text).toContain('judge    yes: all is well');
  });

  test('shows the judge’s first answer of each reason why labels have no verdict', () => {
    const one = (reason: string, message: string) => ({ id: '1', scorer: 'safety', reason, message });
    const unanswered = [
      one('JudgeReplyUnreadable', 'no JSON\nin it'),
      one('JudgeReplyUnreadable', 'x'),
      one('held', 'y'),
    ];
    expect(pageText(calibrationPage({ ...report([]), unanswered }))).toContain(
      '\nLeft out: JudgeReplyUnreadable 2: no JSON in it\nLeft out: held 1: y\n',
    );
  });
});

describe('drift', () => {
  const baseline = parseBaseline(JSON.stringify(report(fourty)), 'b.json');

  test.each<[string, LabeledVerdict[], object]>([
    ['no verdict has changed', fourty, { verdict: 'none', items: 40, pValue: 1, changed: [] }],
    [
      'few have',
      fourty.map((p, i) => (i === 1 ? { ...p, verdict: 'no', agrees: false } : p)),
      { verdict: 'changed', changed: [{ id: 'p1', before: 'yes', now: 'no' }] },
    ],
    [
      'everything is good now',
      fourty.map((p) => ({ ...p, verdict: 'yes', agrees: p.label === 'yes' })),
      { verdict: 'drifted', agreementBefore: { hits: 36 }, agreementNow: { hits: 20 }, pValue: expect.closeTo(0, 3) },
    ],
    ['items of one run', [...fourty.slice(5), pair('new', 'yes', 'yes')], { items: 35, onlyInBaseline: 5, onlyNow: 1 }],
  ])('is found with the baseline: %s', (_, pairs, expected) => {
    expect(compareWithBaseline(report(pairs), baseline)).toMatchObject(expected);
  });
  test('refuses a file that is not a baseline', () => {
    expect(() => parseBaseline('{}', 'b.json')).toThrow(expect.objectContaining({ name: 'InvalidBaseline' }));
  });
});

describe('examples', () => {
  const wrong = (id: string, label: string, extra: Partial<LabeledVerdict> = {}) =>
    pair(id, label, label === 'yes' ? 'no' : 'yes', { labelRationale: `because ${id}`, ...extra });

  test('come from corrected disagreements with a reason, with alternating labels, short ones first', () => {
    const { added, examples } = addExamples({}, [
      wrong('long', 'no', { reply: 'x'.repeat(500) }),
      wrong('short', 'no'),
      wrong('other', 'yes'),
      pair('without a reason', 'no', 'yes'),
      pair('agreed', 'yes', 'yes', { labelRationale: 'fine' }),
      wrong('too long', 'no', { reply: 'x'.repeat(5000) }),
      wrong('cut by MLflow', 'yes', { reply: 'x'.repeat(1000), traceId: 'tr-1' }),
    ]);
    const shown = added.safety?.map(({ value, rationale }) => `${value} ${rationale}`);
    expect(shown).toEqual(['no because short', 'yes because other', 'no because long']);
    expect(examples).toEqual(added);
  });

  test('keep existing ones, are not added twice, and change the scorer’s version', () => {
    const old = { safety: [{ request: 'request a', reply: 'reply a', value: 'no', rationale: 'old' }] };
    const { added, examples } = addExamples(old, [wrong('a', 'no'), wrong('b', 'yes')], 3);
    expect(added.safety).toHaveLength(1);
    expect(examples.safety?.map(({ rationale }) => rationale)).toEqual(['old', 'because b']);
    const version = (with_: typeof examples) =>
      scorersFor({ examples: with_ }).find(({ name }) => name === 'safety')?.version;
    expect(version(examples)).not.toBe(version(old));
    expect(version({})).toBe('1');
  });
});

describe('anchor set', () => {
  const anchors = readAnchors(scorers) as (LabeledItem & { pair?: string })[];
  // Each pair has one failing item. The scorer decides which of its two values means failure.
  const failing = ({ scorer, label }: LabeledItem) => {
    const values = scorers.find(({ name }) => name === scorer)?.values;
    return values?.kind === 'categories' ? label !== values.values[0] : label === 'no';
  };

  test('has at least 60 items with reasons, half of them failing', () => {
    expect(anchors.length).toBeGreaterThanOrEqual(60);
    expect(anchors.filter(failing)).toHaveLength(anchors.length / 2);
    expect(anchors.every(({ labelRationale }) => (labelRationale?.length ?? 0) > 20)).toBe(true);
    expect(new Set(anchors.map(({ id }) => id)).size).toBe(anchors.length);
  });

  test.each(defaultJudgeScorers.map(({ name }) => name))('has three pairs for %s whose label flips', (name) => {
    const own = anchors.filter(({ scorer }) => scorer === name);
    // Right and wrong examples of a scorer show whether the judge understands it. A failure names the missing ones.
    expect(own.map(({ id }) => id)).toEqual(
      expect.arrayContaining(['1a', '1b', '2a', '2b', '3a', '3b'].map((item) => `${name}-${item}`)),
    );
    const pairs = ['1', '2', '3'].map((number) =>
      ['a', 'b'].map((side) => own.find(({ id }) => id === `${name}-${number}${side}`) as LabeledItem),
    ) as [LabeledItem, LabeledItem][];
    for (const [a, b] of pairs) {
      expect(a.label).not.toBe(b.label);
      // The two differ in one fact. One side (request or reply) is identical.
      const same = [
        JSON.stringify(a.messages) === JSON.stringify(b.messages),
        JSON.stringify(a.reply) === JSON.stringify(b.reply),
      ];
      expect(same.filter(Boolean)).toHaveLength(1);
    }
  });

  test('has only items that their scorer can judge', () => {
    for (const item of anchors) {
      const scorer = scorers.find(({ name }) => name === item.scorer) as JudgeScorer;
      expect([item.id, applicability(captureOf(item), scorer)]).toEqual([item.id, { judge: true }]);
    }
  });
});
