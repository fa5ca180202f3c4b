/** The Python package for scorers: what a function gets, and what becomes of its results. */
import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { defaultPythonEnvironment } from '../../local/python/python-presets.ts';
import { packagePath } from '../../src/core/process/package-folder.ts';
import { type ScorerRecord, scorerReplySchema } from '../../src/judge/functions/contract.ts';
import { serve } from '../../src/judge/functions/serve.ts';

const chat = (role: string, text: string) => ({ messages: [{ role, content: text }], text });
const RECORD: ScorerRecord = {
  traceId: 'tr-1',
  request: chat('user', 'How often?'),
  reply: chat('assistant', 'Once a week'),
  tokens: { output: 3 },
};
const RECORDS = [RECORD, { ...RECORD, expectation: 'daily', cut: ['reply'] }] satisfies ScorerRecord[];

const error = (name: string, message: unknown = expect.any(String)) => ({ error: { name, message } });
const refused = (got: string, expected: string) => `value; got: ${got}; expected: ${expected}`;

/** A function in Python, or its name in `DEFINITIONS`, and its first result. */
const CASES: [string, object][] = [
  ['tokens_words', { value: 3 }],
  ['custom_metric', { value: 11 }],
  ["lambda outputs: outputs['choices'][0]['message']['content'] + outputs[0:1]", { value: 'Once a weekO' }],
  ["lambda inputs: inputs['prompt'] + inputs['messages'][0]['role']", { value: 'How often?user' }],
  ['lambda request, reply, trace: f"{request}{reply}{trace.output_tokens}"', { value: 'How often?Once a week3' }],
  ['lambda expectation, expectations: f"{expectation}{expectations}"', { value: 'None{}' }],
  ['lambda outputs: True', { value: true }],
  ['lambda outputs: numpy.float32(0.5)', { value: 0.5 }],
  ['lambda outputs: numpy.array([2])', { value: 2 }],
  ['lambda outputs: Kind.GOOD', { value: 'good' }],
  ['lambda outputs: [Feedback(1, "few words", 0.1, "f")]', { value: 1, rationale: 'few words', usd: 0.1, name: 'f' }],
  ['lambda outputs: "\\ud800"', { value: '?' }],
  ['lambda outputs: float("nan")', error('ValueError', refused('nan', 'a finite number'))],
  ['lambda outputs: Feedback(1, usd=float("inf"))', error('ValueError', 'usd; got: inf; expected: a finite number')],
  ['lambda outputs: 10 ** 400', error('OverflowError')],
  ['lambda outputs: "x" * 2000', error('ValueError', refused('2000 characters', 'at most 1500'))],
  ['lambda outputs: None', error('TypeError', refused('NoneType', 'a number, a boolean, a string or a Feedback'))],
  ['lambda outputs: numpy.array([1, 2])', error('ValueError')],
  ['lambda outputs: {}[outputs]', error('KeyError', "'Once a week'")],
  ['lambda outputs: sys.exit(3)', error('SystemExit', '3')],
  ['unspeakable', error('Unspeakable', '')],
  ['one_fails', { value: 'None' }],
  ['lambda outputs: Feedback(error="no words")', error('ScorerError', 'no words')],
];

const DEFINITIONS = `
import asyncio, enum, json, sys, typing
sys.path.insert(0, ${JSON.stringify(packagePath('clients', 'python-scorers'))})
import numpy
from sagemaker_inference_monitor_scorers import Feedback, Scorer, scorer, serve

@scorer
def tokens_words(outputs) -> int:
    return len(outputs.get("generated_text", "").split()) if isinstance(outputs, dict) else len(str(outputs).split())

@scorer(name="custom_metric", aggregations=["mean"])
def any_name(outputs) -> float:
    return float(len(outputs["generated_text"]))

@scorer
def rated(request, reply) -> typing.Literal["good", "bad"]:
    return "good"

class Kind(str, enum.Enum):
    GOOD = "good"

class Unspeakable(Exception):
    def __str__(self):
        raise self

def unspeakable(outputs):
    raise Unspeakable

met = asyncio.Event()
async def one_fails(expectation):
    if expectation:
        met.set()
        sys.exit(1)
    await asyncio.wait_for(met.wait(), 10)
    return str(expectation)

functions = {"custom_metric": any_name}
`;

async function python(code: string, input: unknown): Promise<unknown> {
  const { python } = await defaultPythonEnvironment();
  const { stdout } = await promisify(execFile)(python, ['-c', DEFINITIONS + code, JSON.stringify(input)]);
  return JSON.parse(stdout);
}

test('results have the form of the reply, and a fault is the error of its record', async () => {
  const code = `
cases, records = json.loads(sys.argv[1])
def named(case):
    made = functions.get(case) or eval(case)
    return made if isinstance(made, Scorer) else Scorer(made, "f")
made = [named(case) for case in cases]
print(json.dumps([serve(each)({"scorer": each.name, "records": records}) for each in made], allow_nan=False))`;
  const replies = (await python(code, [CASES.map(([text]) => text), RECORDS])) as unknown[];
  const results = replies.map((reply) => {
    const read = scorerReplySchema.parse(reply);
    return 'results' in read && read.results.length === RECORDS.length && read.results[0];
  });
  expect(results.map((result, index) => [CASES[index]?.[0], result])).toEqual(CASES);
});

test('a scorer says what it needs and gives, and refuses a parameter of another name', async () => {
  const code = `
try: scorer(lambda outputs, model: 1)
except TypeError as error: told = str(error)
print(json.dumps([[each.name, each.values, each.needs] for each in [tokens_words, any_name, rated, Scorer(one_fails)]] + [told]))`;
  expect(await python(code, 0)).toEqual([
    ['tokens_words', 'number', ['reply']],
    ['custom_metric', 'number', ['reply']],
    ['rated', ['good', 'bad'], ['reply', 'request']],
    ['one_fails', [], ['reply']],
    expect.stringMatching(/^<lambda>: parameters; got: model; expected: outputs, .*, trace$/),
  ]);
});

test('the same in TypeScript', async () => {
  const handler = serve({
    words: ({ reply }) => ({ value: reply?.text.split(' ').length ?? 0, rationale: 'counted' }),
    odd: async ({ expectation }) => (expectation ? Number.NaN : Promise.reject(new RangeError('none'))),
  });
  const results = async (scorer: string) => scorerReplySchema.parse(await handler({ scorer, records: RECORDS }));
  expect(await results('words')).toEqual({ results: Array(2).fill({ value: 3, rationale: 'counted' }) });
  expect(await results('odd')).toEqual({ results: [error('RangeError', 'none'), error('TypeError')] });
  expect(await results('toString')).toEqual(error('UnknownScorer', 'got: toString; expected: words, odd'));
});
