/** Comparing replies, and judging those that differ. */
import fc from 'fast-check';
import type { ChatMessage } from '../../../src/captures/types.ts';
import { RetryableError } from '../../../src/core/errors/errors.ts';
import { afterAnswers } from '../../../src/judge/errors.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/scorer-set.ts';
import type { Judge } from '../../../src/judge/types.ts';
import { OwnLimit } from '../../../src/limits/spending-limit.ts';
import {
  compareJson,
  compareReplies,
  isRefusal,
  normalize,
  regressionsOf,
  wordOverlap,
  wordsOf,
} from '../../../src/replay/compare/compare-replies.ts';
import { type JudgedReply, type JudgeSettings, judgeReplies } from '../../../src/replay/compare/judge-replies.ts';
import { nothingJudged, ReplyQualityTally } from '../../../src/replay/compare/quality.ts';
import type { StoredReply } from '../../../src/replay/compare/replies-file.ts';
import type { ComparableReply } from '../../../src/replay/compare/reply.ts';
import { qualityFigures } from '../../../src/replay/report/replay-parts.ts';
import { scriptedJudge } from '../../doubles/scripted-judge.ts';

const text = (value: string): ComparableReply => ({ ok: true, text: value });
const document = (value: unknown): ComparableReply => ({ ok: true, text: '', document: value });
const fine = text('Fine.');
const blank: ComparableReply = { ...text(' '), blank: 'message' };
const CANNOT = "I can't help with that";
const nothing: ComparableReply = { ...document([]), blank: 'value' };
const failed = (code: number): ComparableReply => ({ ok: false, error: { code, message: 'no' }, text: '' });

describe('texts', () => {
  test('normalizes Unicode, quotes, case and spacing', () => {
    expect(normalize(' “It’s”\u00a0 FINE\n')).toBe('"it\'s" fine');
  });

  test('overlap is symmetric, 1 for the same words, and 0 for no shared word', () => {
    const words = fc.array(fc.constantFrom('a', 'b', 'c', 'd'));
    fc.assert(
      fc.property(words, words, (a, b) => {
        const overlap = wordOverlap(a, b);
        expect(overlap).toBe(wordOverlap(b, a));
        expect(overlap).toBeGreaterThanOrEqual(0);
        expect(overlap).toBeLessThanOrEqual(1);
        expect(wordOverlap(a, [...a].reverse())).toBe(1);
      }),
    );
    const overlapOf = (a: string, b: string): number => wordOverlap(wordsOf(a).words, wordsOf(b).words);
    expect(overlapOf('the cat sat', 'the dog sat')).toBeCloseTo(2 / 3);
    expect(overlapOf('今日は晴れ', '今日は雨')).toBeGreaterThan(0.5);
    expect(wordOverlap(['x'], ['y'])).toBe(0);
  });

  test.each([
    ["I'm sorry, but I can't help with that.", true],
    ['I cannot assist with this request', true],
    ['Sorry, I’m unable to do that', true],
    ['As an AI language model, I don’t have access to it', true],
    ['Es tut mir leid, dabei kann ich dir nicht helfen', true],
    ['Lo siento, no puedo ayudar con eso', true],
    ['Sorry for the delay! Your parcel arrives today.', false],
    ['You cannot return opened items.', false],
    ['I can help with that.', false],
  ])('%s is a refusal: %s', (value, expected) => {
    expect(isRefusal(value)).toBe(expected);
  });
});

describe('compareJson', () => {
  test('a value is equal to itself, and both directions agree', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.jsonValue(), (a, b) => {
        expect(compareJson(a, JSON.parse(JSON.stringify(a)))).toEqual({ equal: true, sameStructure: true });
        expect(compareJson(a, b).equal).toBe(compareJson(b, a).equal);
      }),
    );
  });

  test.each<[string, unknown, unknown, boolean]>([
    ['another value', { a: [1, 2], 'd e': 1 }, { a: [1, 3], 'd e': 1 }, true],
    ['another text', { a: 'x' }, { a: 'y' }, true],
    ['another type', { b: { c: 'x' } }, { b: { c: 5 } }, false],
    ['one more key', { b: 1 }, { b: 1, n: null }, false],
    ['one key less', { b: 1, n: null }, { b: 1 }, false],
    ['another key', { b: 1 }, { c: 1 }, false],
    ['a longer list', [1], [1, 1], false],
    ['an object for a list', [], {}, false],
    ['a text that became empty', { a: 'x' }, { a: ' ' }, false],
    ['another value before another structure', { a: 1, b: 1 }, { a: 2, b: 'x' }, false],
  ])('%s', (_, before, after, sameStructure) => {
    expect(compareJson(before, after)).toEqual({ equal: false, sameStructure });
  });

  test('treats numbers as equal that differ only by rounding', () => {
    expect(compareJson({ p: 0.1 + 0.2 }, { p: 0.3 }).equal).toBe(true);
  });
});

describe('compareReplies', () => {
  test.each<[string, ComparableReply, ComparableReply, object, string[]]>([
    ['identical', text('Fine.'), text('Fine.'), { status: 'both-ok', identical: true, same: true, overlap: 1 }, []],
    ['the same', text('Fine.'), text(' fine. '), { identical: false, same: true }, []],
    ['different words', text('The depot opens at nine'), text('It opens at nine'), { same: false }, []],
    ['nothing in common', text('The depot opens at nine'), text('Bananas'), { overlap: 0 }, ['little-in-common']],
    ['newly failing', text('Fine.'), failed(500), { status: 'newly-failing', same: false }, ['newly-failing']],
    ['newly succeeding', failed(424), text('Fine.'), { status: 'newly-succeeding' }, []],
    ['failing in the same way', failed(424), failed(424), { status: 'both-failed', same: true }, []],
    ['a refusal', text('I help with that'), text(CANNOT), { refusal: { before: false, after: true } }, ['new-refusal']],
    ['no refusal now', text(CANNOT), text('I can help with that'), { refusal: { before: true, after: false } }, []],
    ['no longer JSON', text('{"a": 1}'), text('So: a is 1'), { json: { before: true, after: false } }, ['json-broken']],
    ['another order', text('{"a":1,"b":2}'), text('```\n{"b": 2, "a": 1}\n```'), { same: true, identical: false }, []],
    ['another shape', text('{"a":1}'), text('{"a":{"x":1}}'), { json: { sameStructure: false } }, ['json-structure']],
    ['numbers', document([0.2]), document([0.4]), { same: false, json: { sameStructure: true, equal: false } }, []],
    ['equal predictions', document({ p: [0.2] }), document({ p: [0.2] }), { identical: true, same: true }, []],
    ['spaces', text('Fine.'), blank, { emptied: true }, ['empty-reply', 'little-in-common']],
    [
      'failing because it says nothing',
      fine,
      { ...failed(200), blank: 'message' },
      { status: 'newly-failing', emptied: true },
      ['newly-failing', 'empty-reply'],
    ],
    ['one empty', { ...fine, further: ['Good.'] }, { ...fine, further: [''] }, { emptied: true }, ['empty-reply']],
    [
      'a tool call in place of words',
      fine,
      { ...text(''), toolCalls: [{ type: 'function', function: { name: 'f', arguments: '{}' } }] },
      { sameTools: false },
      ['tools-changed', 'little-in-common'],
    ],
    [
      'a document that lost its text',
      document({ body: 'Fine.', status: 'ok' }),
      document({ body: ' ', status: 'ok' }),
      { json: { sameStructure: false } },
      ['json-structure'],
    ],
    ['a text now', document({ b: '', a: 1 }), document({ b: 'Fine.', a: 1 }), { json: { sameStructure: true } }, []],
    ['nothing found both times', nothing, nothing, { status: 'both-ok', same: true }, []],
    [
      'a page in place of JSON',
      { ...text('Welcome to nginx!'), kind: 'document' },
      { ...text('Welcome to nginx!'), kind: 'page' },
      { kinds: ['document', 'page'] },
      ['another-kind'],
    ],
    ['different bytes', { ok: true, text: '', digest: 'a' }, { ok: true, text: '', digest: 'b' }, { same: false }, []],
  ])('%s', (_, before, after, expected, regressions) => {
    const found = compareReplies(before, after);
    expect(found).toMatchObject(expected);
    expect(regressionsOf(found)).toEqual(regressions);
  });

  test('compares tool calls by name and by the values of their arguments', () => {
    const call = (name: string, args: string): ComparableReply => ({
      ok: true,
      text: '',
      toolCalls: [{ id: String(Math.random()), type: 'function', function: { name, arguments: args } }],
    });
    const called = compareReplies(call('track', '{"id":1}'), call('track', '{ "id": 1 }'));
    expect(called).toMatchObject({ same: true, sameTools: true });
    const other = compareReplies(call('track', '{"id":1}'), call('track', '{"id":2}'));
    expect(other).toMatchObject({ same: false, sameTools: true });
    expect(regressionsOf(compareReplies(call('track', '{}'), call('delete', '{}')))).toEqual(['tools-changed']);
    expect(regressionsOf(compareReplies(call('track', '{}'), text('Done.')))).toContain('tools-changed');
  });

  test.each<[string, (size: number) => ComparableReply]>([
    ['line breaks after a fence', (size) => text(`\`\`\`${'\n'.repeat(size)}x`)],
    ['spaces after a fence', (size) => text(`\`\`\`json${' '.repeat(size)}\n{}`)],
    ['words', (size) => text(Array.from({ length: size / 6 }, (_, i) => `${i % 977} w`).join(' '))],
    ['numbers', (size) => document(Array.from({ length: size / 6 }, (_, i) => i))],
    ['keys', (size) => document(Object.fromEntries(Array.from({ length: size / 12 }, (_, i) => [`key ${i}`, {}])))],
  ])('takes time linear in the length of a reply: %s', (_, replyOf) => {
    const timeOf = (size: number): number => {
      const replies: [ComparableReply, ComparableReply] = [replyOf(size), replyOf(size + 24)];
      // The fastest of five, because other processes and the garbage collector add time.
      const times = [1, 2, 3, 4, 5].map(() => {
        const from = performance.now();
        compareReplies(...replies);
        return performance.now() - from;
      });
      return Math.min(...times);
    };
    timeOf(12_000);
    // At ten times the length, quadratic time would be a hundred times as long.
    expect(timeOf(120_000)).toBeLessThan(60 * Math.max(5, timeOf(12_000)));
  });

  test('compares long texts by their beginning, and extrapolates the number of words', () => {
    const long = (word: string): ComparableReply => text(`${word} `.repeat(200_000));
    const found = compareReplies(long('one'), long('two'));
    expect(found).toMatchObject({ overlap: 0, words: [200_000, 200_000], same: false });
    expect(compareReplies(long('one'), long('one'))).toMatchObject({ overlap: 1, identical: true, same: true });
  });

  test('counts a pair that cannot be compared as worse', () => {
    let deep: unknown[] = [];
    for (let i = 0; i < 10_000; i++) deep = [deep];
    const found = compareReplies(document(deep), document([deep]));
    expect(found).toEqual({ status: 'both-ok', identical: false, same: false, problem: 'RangeError' });
    expect(regressionsOf(found)).toEqual(['not-comparable']);
  });

  test('QualityTally adds up the comparisons', () => {
    const tally = new ReplyQualityTally();
    const stored = (reply: ComparableReply): StoredReply => ({
      ...{ key: 'k', request_id: 'r', file: 'f', line: 1, input: '', reply },
      comparison: compareReplies(text('a b'), reply),
    });
    const added = [text('a b'), text('a c d'), failed(500)].map(stored);
    for (const one of added) tally.add(one);
    expect(tally.quality).toMatchObject({
      compared: 3,
      identical: 1,
      regressed: 1,
      texts: 2,
      meanOverlap: (1 + 2 / 5) / 2,
      lengthRatio: 5 / 4,
      status: { 'both-ok': 2, 'newly-failing': 1 },
    });
    expect(tally.result().regressions).toMatchObject([{ regressions: ['newly-failing'] }]);
    // Each with the next.
    const refusal = "I'm sorry, but I can't do that.";
    const texts = ['{"a":1}', '{"a":', '{"a":1}', '{"a":2}', '{"b":1}', '', 'a', refusal, refusal, 'a'].map(text);
    for (const [i, after] of texts.slice(1).entries()) {
      const captured = texts[i] ?? nothing;
      const one = { ...stored(after), messages: [], captured, comparison: compareReplies(captured, after) };
      tally.add(one);
      added.push(one);
    }
    expect(tally.quality.json).toMatchObject({ valuesChanged: 1 });
    expect(tally.quality.regressions).toMatchObject({ 'json-broken': 2, 'json-structure': 1, 'new-refusal': 1 });
    expect(tally.quality.refusals).toEqual({ before: 2, after: 2 });
    expect(tally.quality.comparable.emptied).toBe(1);
    // The tallies of the shards of a cloud replay.
    const merged = new ReplyQualityTally();
    for (const shard of [0, 1, 2]) {
      const part = new ReplyQualityTally();
      for (const one of added.filter((_, i) => i % 3 === shard)) part.add(one);
      merged.merge(JSON.parse(JSON.stringify(part)));
    }
    const meanOverlap = expect.closeTo(tally.quality.meanOverlap ?? Number.NaN, 9);
    expect(merged.quality).toEqual({ ...tally.quality, meanOverlap });
    expect(merged.result().regressions).toHaveLength(tally.result().regressions.length);
  });
});

describe('judging replies', () => {
  /** A judge that prefers the longer reply, the captured one if they are as long, or neither. */
  const judge = (prefer: 'longer' | 'none'): Judge & { seen: string[][] } => {
    const seen: string[][] = [];
    return {
      seen,
      sourceId: 'test:/judge',
      maxCostUsd: () => 0.001,
      async judge(capture, scorers) {
        const replies = (capture.conversation?.replies ?? []).map((reply) => String(reply.content));
        seen.push(replies);
        const longer = (replies[0]?.length ?? 0) > (replies[1]?.length ?? 0) ? 'reply 1' : 'reply 2';
        const isHarm = scorers.every(({ severity }) => severity === 'harm');
        const preferred = prefer === 'none' ? 'equally good' : longer;
        const value = isHarm ? (replies[0]?.includes('bleach') ? 'no' : 'yes') : preferred;
        const usage = { inputTokens: 10, outputTokens: 2, usd: 0.001 };
        return {
          verdicts: [{ scorer: scorers[0]?.name ?? '', outcome: 'verdict', value, rationale: value, usage }],
          spend: { calls: 1, ...usage },
        };
      },
    };
  };
  const question = [{ role: 'user', content: 'q' }];
  /** A reply that differs from the captured one. */
  const differing = (name: string, before = 'short', after = `a longer one, ${name}`): StoredReply => ({
    ...{ key: name, event_id: `e-${name}`, request_id: `r-${name}`, captured_trace_id: `tr-${name}` },
    ...{ file: 'f', line: 1, input: '', messages: question },
    ...{ captured: text(before), reply: text(after), comparison: compareReplies(text(before), text(after)) },
  });
  const many = (count: number): StoredReply[] => Array.from({ length: count }, (_, i) => differing(String(i)));

  async function judged(judging: JudgeSettings, replies: AsyncIterable<StoredReply> | Iterable<StoredReply>) {
    const tally = new ReplyQualityTally();
    const lines: JudgedReply[] = [];
    const result = await judgeReplies(tally, judging, replies, (line) => lines.push(line));
    return { ...result, lines, judged: tally.quality.judged ?? nothingJudged(), tally };
  }

  test('asks about those that differ, and names the replies that are worse, with the judge’s words', async () => {
    const same = { ...differing('same'), comparison: compareReplies(text('a'), text('a')) };
    const { messages: _, ...unread } = differing('no chat');
    const worse = differing('worse', 'a longer one', 'a one');
    const longer = judge('longer');
    const found = await judged({ judge: longer }, [differing('better'), same, unread, worse]);
    expect(longer.seen).toHaveLength(4);
    expect(found).toMatchObject({ judged: { better: 1, worse: 1, failed: 0 }, judgeUsd: expect.closeTo(0.004) });
    expect(found.judgeFailure).toBeUndefined();
    const rationale = 'Reply 1 captured, reply 2 new: reply 1\n\nReply 1 new, reply 2 captured: reply 2';
    expect(found.lines).toEqual([
      expect.objectContaining({ key: 'better', verdict: 'better' }),
      {
        ...{ key: 'worse', event_id: 'e-worse', request_id: 'r-worse', captured_trace_id: 'tr-worse' },
        ...{ judge: 'test:/judge', verdict: 'worse', rationale, usd: 0.002 },
      },
    ]);
    const { regressions } = found.tally.result();
    expect(regressions).toMatchObject([{ key: 'worse', regressions: ['judged-worse'], rationale }]);
  });

  test('asks whether a new reply does harm where the earlier one does none', async () => {
    const HARM = 'Mix bleach and ammonia.';
    const harm = defaultJudgeScorers.filter(({ severity }) => severity === 'harm');
    const soap = differing('c', HARM, 'Soap.');
    const pairs = [differing('a', 'Use soap.', HARM), differing('b', HARM, `${HARM} Twice.`), soap];
    const found = await judged({ judge: judge('longer'), harm }, pairs);
    expect(found.tally.quality.harm).toEqual({ asked: 3, new: 1 });
    const harmful = found.lines.map(({ key, newHarm }) => `${key} ${newHarm}`);
    expect(harmful.toSorted()).toEqual(['a true', 'b false', 'c false']);
    const regressions = expect.arrayContaining(['new-harm']);
    expect(found.tally.result().regressions[0]).toMatchObject({ key: 'a', regressions });
    // Three pairs in two orders, three new replies, and the earlier ones of two that do harm.
    expect(found.judgeUsd).toBeCloseTo(0.011);
    const { judge: real } = scriptedJudge(undefined, { price: () => 0.001 });
    const held = await judged({ judge: real, harm, limit: new OwnLimit(0.0025) }, pairs.slice(0, 1));
    expect(held.tally.quality).toMatchObject({ harm: { asked: 0, new: 0 }, judged: { overBudget: 0 } });
  });

  test('asks about equal pairs once, and each has the verdict', async () => {
    const longer = judge('longer');
    const replies = [differing('a', 'x', 'longer'), differing('b', 'x', 'longer'), differing('c', 'x', 'another')];
    const found = await judged({ judge: longer }, replies);
    expect(longer.seen).toHaveLength(4);
    expect(found.judged).toMatchObject({ better: 3 });
    expect(found.lines.map(({ key, usd }) => `${key} ${usd}`).sort()).toEqual(['a 0.002', 'b 0', 'c 0.002']);
    expect(found.judgeUsd).toBeCloseTo(0.004);
  });

  test('stops at the budget', async () => {
    const { judge: real } = scriptedJudge(undefined, { price: () => 0.001 });
    const found = await judged({ judge: real, limit: new OwnLimit(0.0065) }, many(10));
    // A pair can cost 0.002 dollars: three are within the budget. The judge prefers the first reply, so they are undecided.
    expect(found.judged).toMatchObject({ undecided: 3, overBudget: 7 });
    expect(found.judgeUsd).toBeCloseTo(0.006);
    expect(found.judgeFailure).toBeUndefined();
    expect(found.lines).toHaveLength(3);
  });

  test('counts the cost of a pair whose second order fails, and asks about no further pair', async () => {
    const good = judge('longer');
    const failing: Judge = {
      ...good,
      async judge(capture, scorers) {
        const before = capture.conversation?.replies[0]?.content;
        if (good.seen.length < 2 || before === 'short') return good.judge(capture, scorers);
        const spend = { calls: 1, inputTokens: 5, outputTokens: 0, usd: 0.0004 };
        throw afterAnswers(new RetryableError('JudgeThrottled', 'slow down'), { spend, verdicts: [] });
      },
    };
    const slowly = async function* (): AsyncGenerator<StoredReply> {
      for (const one of many(10)) {
        yield one;
        // The next pair starts after the previous one has ended.
        await new Promise((resolve) => setTimeout(resolve, 5));
      }
    };
    const found = await judged({ judge: failing }, slowly());
    expect(found.judgeFailure).toEqual({ name: 'JudgeThrottled', message: expect.stringContaining('slow down') });
    expect(found.lines.map(({ key, verdict }) => [key, verdict])).toEqual([['0', 'better']]);
    expect(found).toMatchObject({ judged: { better: 1, failed: 0 }, judgeUsd: expect.closeTo(0.0034) });
    expect(good.seen).toHaveLength(3);
  });

  test('a judge that is stopped asks about no further pair, and its verdicts count', async () => {
    let left = 3;
    const goOn = () => left-- > 0;
    const found = await judged({ judge: judge('longer'), goOn }, many(10));
    expect(found).toMatchObject({ judged: { better: 3 }, judgeFailure: { name: 'JudgingStopped' } });
    const stopped = new AbortController();
    const hanging: Judge = {
      ...judge('longer'),
      judge: (_capture, _scorers, signal) =>
        new Promise((_, reject) => {
          const cancel = () => reject(new RetryableError('ChunkOutOfTime', 'canceled'));
          signal?.addEventListener('abort', cancel);
          setTimeout(() => stopped.abort());
        }),
    };
    const canceled = await judged({ judge: hanging, signal: stopped.signal }, many(1));
    expect(canceled).toMatchObject({ judged: nothingJudged(), judgeFailure: { name: 'JudgingStopped' } });
  });

  test('a pair with invalid messages fails alone', async () => {
    const odd = (name: string, ...messages: unknown[]): StoredReply => ({
      ...differing(name),
      messages: messages as ChatMessage[],
    });
    const replies = [odd('a', null), differing('b'), odd('c', ...question, null), differing('d')];
    const found = await judged({ judge: scriptedJudge().judge }, replies);
    expect(found.judged).toMatchObject({ undecided: 2, failed: 2, errors: { JudgeCaptureFailed: 2 } });
    const error = { code: 'JudgeCaptureFailed', message: expect.stringMatching('TypeError in ') };
    expect(found.lines.flatMap((line) => line.error ?? [])).toEqual([error, error]);
  });

  test('a judge without any verdict is a failure, and its errors are counted', async () => {
    const good = judge('none');
    const error = { code: 'JudgeReplyUnreadable', message: 'no JSON' };
    const usage = { inputTokens: 1, outputTokens: 1, usd: 0 };
    const mute: Judge = {
      ...good,
      judge: async () => ({
        verdicts: [{ scorer: '', outcome: 'error', error, usage }],
        spend: { calls: 1, ...usage },
      }),
    };
    expect(await judged({ judge: mute }, many(2))).toMatchObject({
      judged: { failed: 2, errors: { JudgeReplyUnreadable: 2 } },
      judgeFailure: { name: 'NoVerdict', message: 'not one of 2 pairs has a verdict: JudgeReplyUnreadable 2' },
    });
    let calls = 0;
    const once: Judge = { ...good, judge: (...args) => (calls++ < 2 ? good : mute).judge(...args) };
    const some = await judged({ judge: once }, many(2));
    expect(some.judgeFailure).toBeUndefined();
    expect(qualityFigures(some.tally.quality)).toMatchObject({
      judged: '0 better, 1 same, 0 worse, 0 undecided, 1 without a verdict (JudgeReplyUnreadable 1)',
    });
  });
});
