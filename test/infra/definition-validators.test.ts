/** Two validators read the definition; planted mistakes show that they would see one. */
import { getLanguageService, TextDocument } from 'amazon-states-language-service';
import validate from 'asl-validator';
import { definitionOf, MONITORING, REPLAY, templateOf } from '../helpers/synth.ts';

type State = Record<string, unknown>;
type Definition = { StartAt: string; States: Record<string, State> };

const template = templateOf();
const definition = definitionOf(template) as Definition;
const copy = (of = definition): Definition => JSON.parse(JSON.stringify(of)) as Definition;

/** Messages of `asl-validator`; it writes into what it is given. */
function byAslValidator(subject: Definition): string[] {
  const result = validate(JSON.parse(JSON.stringify(subject)));
  return result.isValid ? [] : result.errors.map((error) => error.Message);
}

/** Messages of AWS's own language service, as its editors show them. */
async function byLanguageService(subject: Definition): Promise<string[]> {
  const service = getLanguageService({});
  const document = TextDocument.create('file:///definition.asl.json', 'asl', 1, JSON.stringify(subject, null, 2));
  const diagnostics = await service.doValidation(document, service.parseJSONDocument(document));
  return diagnostics.map(({ message }) => JSON.stringify(message));
}

it.each([MONITORING, REPLAY])('both find nothing wrong with the definition of %s', async (id) => {
  const subject = definitionOf(template, id) as Definition;
  expect(byAslValidator(subject)).toEqual([]);
  expect(await byLanguageService(subject)).toEqual([]);
});

const mapOf = (subject: Definition, id = 'ForEachChunk'): State => subject.States[id] as State;
const childrenOf = (subject: Definition, id?: string): Record<string, State> =>
  (mapOf(subject, id).ItemProcessor as { States: Record<string, State> }).States;

/** What a hand may slip on, and which of the two sees it. */
const mistakes: [string, (subject: Definition) => void, { asl: boolean; service: boolean }][] = [
  [
    'a transition to a state that is not there',
    (s) => Object.assign(s.States.PlanCaptures as State, { Next: 'Nowhere' }),
    { asl: true, service: true },
  ],
  [
    'a state that nothing leads to',
    (s) => Object.assign(s.States, { Island: { Type: 'Succeed' } }),
    { asl: true, service: true },
  ],
  [
    'a Catch to a state that is not there',
    (s) => Object.assign(mapOf(s), { Catch: [{ ErrorEquals: ['States.ALL'], Next: 'Nowhere' }] }),
    { asl: true, service: true },
  ],
  ['a start that is not there', (s) => Object.assign(s, { StartAt: 'Nowhere' }), { asl: true, service: true }],
  [
    'a type that does not exist',
    (s) => Object.assign(s.States.Start as State, { Type: 'Pas' }),
    { asl: true, service: true },
  ],
  [
    'a child that leads out of the Map',
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
    'a path that is none',
    (s) => Object.assign(s.States.PlanCaptures as State, { ResultPath: 'plan' }),
    { asl: true, service: false },
  ],
  [
    'a tolerance of more than all',
    (s) => Object.assign(mapOf(s), { ToleratedFailurePercentage: 101 }),
    { asl: true, service: true },
  ],
  [
    'a Task without a resource',
    (s) => void delete (childrenOf(s).EvaluateTraces as State).Resource,
    { asl: true, service: true },
  ],
];

it.each(mistakes)('%s is seen', async (_, plant, seenBy) => {
  const subject = copy();
  plant(subject);
  const seen = { asl: byAslValidator(subject).length > 0, service: (await byLanguageService(subject)).length > 0 };
  expect(seen.asl || seen.service).toBe(true);
  // So that a new version of either that sees less does not go by unnoticed.
  expect(seen).toEqual(seenBy);
});

// What both miss, besides a reader in an INLINE Map.
it.each<[string, (map: State) => void]>([
  ['a reader without Key', (map) => void delete (map.ItemReader as { Parameters: State }).Parameters['Key.$']],
  ['a writer without Bucket', (map) => void delete (map.ResultWriter as { Parameters: State }).Parameters.Bucket],
  [
    'States.ALL beside another name',
    (map) => Object.assign(map, { Catch: [{ ErrorEquals: ['States.ALL', 'X'], Next: 'SummarizeRun' }] }),
  ],
])('%s is not seen, which is why definition.test.ts compares exactly', async (_, plant) => {
  const subject = copy();
  plant(mapOf(subject));
  expect(subject).not.toEqual(definition);
  expect([...byAslValidator(subject), ...(await byLanguageService(subject))]).toEqual([]);
});

// What a replay has and the monitoring has not.
it.each<[string, (states: Record<string, State>) => void]>([
  ['a Wait for nothing', ({ UntilShardIsDue }) => void delete UntilShardIsDue?.TimestampPath],
  ['a Wait for two things', ({ UntilShardIsDue }) => Object.assign(UntilShardIsDue as State, { Seconds: 1 })],
  ['a Wait that leads nowhere', ({ UntilShardIsDue }) => Object.assign(UntilShardIsDue as State, { Next: 'Nowhere' })],
])('%s before a shard is seen', async (_, plant) => {
  const subject = copy(definitionOf(template, REPLAY) as Definition);
  plant(childrenOf(subject, 'ForEachShard'));
  expect([...byAslValidator(subject), ...(await byLanguageService(subject))]).not.toEqual([]);
});

it.each<[string, (states: Record<string, State>) => void]>([
  ['that leads to no state', ({ ShardEvaluated }) => Object.assign(ShardEvaluated as State, { Default: 'Evaluate' })],
  ['that leads out of the Map', ({ ShardEvaluated }) => Object.assign(ShardEvaluated as State, { Default: 'Start' })],
  ['without an end', (states) => void delete states.ShardDone],
])('a loop over a shard %s is seen', async (_, plant) => {
  const subject = copy(definitionOf(template, REPLAY) as Definition);
  plant(childrenOf(subject, 'ForEachReplayedShard'));
  expect([...byAslValidator(subject), ...(await byLanguageService(subject))]).not.toEqual([]);
});
