/** Two validators check the definitions. Deliberate mistakes show what each of them detects. */
import { getLanguageService, TextDocument } from 'amazon-states-language-service';
import validate from 'asl-validator';
import { definitionOf, GROUND_TRUTH, MONITORING, REPLAY, templateOf } from '../helpers/synth.ts';

type State = Record<string, unknown>;
type Definition = { StartAt: string; States: Record<string, State> };

const template = templateOf();
const definition = definitionOf(template) as Definition;
const copy = (of = definition): Definition => JSON.parse(JSON.stringify(of)) as Definition;

/** The messages of `asl-validator`, on a copy since it modifies its argument. */
function byAslValidator(subject: Definition): string[] {
  const result = validate(JSON.parse(JSON.stringify(subject)));
  return result.isValid ? [] : result.errors.map((error) => error.Message);
}

/** The messages of AWS's own language service, as editors show them. */
async function byLanguageService(subject: Definition): Promise<string[]> {
  const service = getLanguageService({});
  const document = TextDocument.create('file:///definition.asl.json', 'asl', 1, JSON.stringify(subject, null, 2));
  const diagnostics = await service.doValidation(document, service.parseJSONDocument(document));
  return diagnostics.map(({ message }) => JSON.stringify(message));
}

it.each([MONITORING, REPLAY, GROUND_TRUTH])('both accept the definition of %s', async (id) => {
  const subject = definitionOf(template, id) as Definition;
  expect(byAslValidator(subject)).toEqual([]);
  expect(await byLanguageService(subject)).toEqual([]);
});

const mapOf = (subject: Definition, id = 'ForEachChunk'): State => subject.States[id] as State;
const childrenOf = (subject: Definition, id?: string): Record<string, State> =>
  (mapOf(subject, id).ItemProcessor as { States: Record<string, State> }).States;

/** Likely mistakes, and which of the two validators detects each. */
const mistakes: [string, (subject: Definition) => void, { asl: boolean; service: boolean }][] = [
  [
    'a transition to a missing state',
    (s) => Object.assign(s.States.PlanCaptures as State, { Next: 'Nowhere' }),
    { asl: true, service: true },
  ],
  [
    'an unreachable state',
    (s) => Object.assign(s.States, { Island: { Type: 'Succeed' } }),
    { asl: true, service: true },
  ],
  [
    'a Catch to a missing state',
    (s) => Object.assign(mapOf(s), { Catch: [{ ErrorEquals: ['States.ALL'], Next: 'Nowhere' }] }),
    { asl: true, service: true },
  ],
  ['a missing start state', (s) => Object.assign(s, { StartAt: 'Nowhere' }), { asl: true, service: true }],
  ['an unknown type', (s) => Object.assign(s.States.Start as State, { Type: 'Pas' }), { asl: true, service: true }],
  [
    'a transition out of the Map',
    (s) => Object.assign(childrenOf(s).LogTraces as State, { Next: 'SummarizeRun' }),
    { asl: true, service: true },
  ],
  ['a state without an end', (s) => void delete (s.States.SummarizeRun as State).Next, { asl: true, service: true }],
  [
    'a Choice without a rule',
    (s) => Object.assign(s.States.NothingMissing as State, { Choices: [] }),
    { asl: true, service: true },
  ],
  [
    'an invalid path',
    (s) => Object.assign(s.States.PlanCaptures as State, { ResultPath: 'plan' }),
    { asl: true, service: false },
  ],
  [
    'a tolerance over 100%',
    (s) => Object.assign(mapOf(s), { ToleratedFailurePercentage: 101 }),
    { asl: true, service: true },
  ],
  [
    'a Task without a resource',
    (s) => void delete (childrenOf(s).EvaluateTraces as State).Resource,
    { asl: true, service: true },
  ],
];

it.each(mistakes)('detects %s', async (_, plant, seenBy) => {
  const subject = copy();
  plant(subject);
  const seen = { asl: byAslValidator(subject).length > 0, service: (await byLanguageService(subject)).length > 0 };
  expect(seen.asl || seen.service).toBe(true);
  // Notices a new version of either validator that detects less.
  expect(seen).toEqual(seenBy);
});

// Mistakes that both miss. They also miss a reader in an INLINE Map.
it.each<[string, (map: State) => void]>([
  ['a reader without Key', (map) => void delete (map.ItemReader as { Parameters: State }).Parameters['Key.$']],
  ['a writer without Bucket', (map) => void delete (map.ResultWriter as { Parameters: State }).Parameters.Bucket],
  [
    'States.ALL next to another name',
    (map) => Object.assign(map, { Catch: [{ ErrorEquals: ['States.ALL', 'X'], Next: 'SummarizeRun' }] }),
  ],
])('misses %s, which is why recorded.test.ts compares exactly', async (_, plant) => {
  const subject = copy();
  plant(mapOf(subject));
  expect(subject).not.toEqual(definition);
  expect([...byAslValidator(subject), ...(await byLanguageService(subject))]).toEqual([]);
});

// States that only the replay has.
it.each<[string, (states: Record<string, State>) => void]>([
  ['a Wait without a time', ({ UntilShardIsDue }) => void delete UntilShardIsDue?.TimestampPath],
  ['a Wait with two times', ({ UntilShardIsDue }) => Object.assign(UntilShardIsDue as State, { Seconds: 1 })],
  [
    'a Wait with a missing next state',
    ({ UntilShardIsDue }) => Object.assign(UntilShardIsDue as State, { Next: 'Nowhere' }),
  ],
])('detects %s before a shard', async (_, plant) => {
  const subject = copy(definitionOf(template, REPLAY) as Definition);
  plant(childrenOf(subject, 'ForEachShard'));
  expect([...byAslValidator(subject), ...(await byLanguageService(subject))]).not.toEqual([]);
});

it.each<[string, (states: Record<string, State>) => void]>([
  [
    'with a missing next state',
    ({ ShardEvaluated }) => Object.assign(ShardEvaluated as State, { Default: 'Evaluate' }),
  ],
  [
    'with a transition out of the Map',
    ({ ShardEvaluated }) => Object.assign(ShardEvaluated as State, { Default: 'Start' }),
  ],
  ['without an end', (states) => void delete states.ShardDone],
])('detects a loop over a shard %s', async (_, plant) => {
  const subject = copy(definitionOf(template, REPLAY) as Definition);
  plant(childrenOf(subject, 'ForEachReplayedShard'));
  expect([...byAslValidator(subject), ...(await byLanguageService(subject))]).not.toEqual([]);
});
