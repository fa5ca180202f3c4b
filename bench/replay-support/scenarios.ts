/** The traffic that both sides replay, with times in whole seconds as SageMaker captures them. */
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { Random } from '../../src/core/values/random.ts';

export interface Scenario {
  name: string;
  requests: number;
  /** Duration in seconds. 1 is a burst: all requests have the same time. */
  seconds: number;
  /** Whether requests arrive in bursts that queue at the server, independent of the client. */
  queues?: boolean;
}

export const SCENARIOS: readonly Scenario[] = [
  { name: '10/s for 60 s', requests: 600, seconds: 60 },
  { name: '200/s for 10 s', requests: 2_000, seconds: 10, queues: true },
  { name: '1,000/s for 20 s', requests: 20_000, seconds: 20, queues: true },
  { name: 'burst of 200', requests: 200, seconds: 1, queues: true },
  { name: 'burst of 500', requests: 500, seconds: 1, queues: true },
  { name: 'burst of 1,000', requests: 1_000, seconds: 1, queues: true },
  { name: 'burst of 2,000', requests: 2_000, seconds: 1, queues: true },
];

const WORDS =
  'the model serves captured requests again and again while the endpoint answers each of them in good time'.split(' ');
const FIRST_MS = Date.parse('2026-11-20T10:00:00Z');

/** Returns the captured time of request `i`, in milliseconds after the first record. */
export const offsetMs = ({ requests, seconds }: Scenario, i: number): number =>
  Math.floor((i * seconds) / requests) * 1000;

function line(scenario: Scenario, i: number, random: Random): string {
  const words = Array.from({ length: 20 + random.below(90) }, () => WORDS[random.below(WORDS.length)]);
  // The server identifies requests by the number at the beginning.
  const content = `[#${String(i).padStart(6, '0')}] ${words.join(' ')}`;
  const request = { model: 'my-model', messages: [{ role: 'user', content }], max_tokens: 16, temperature: 0.2 };
  const reply = {
    choices: [{ index: 0, message: { role: 'assistant', content: 'Fine.' }, finish_reason: 'stop' }],
    usage: { prompt_tokens: words.length + 8, completion_tokens: 2, total_tokens: words.length + 10 },
  };
  const side = (mode: string, data: object) => ({
    observedContentType: 'application/json',
    mode,
    data: JSON.stringify(data),
    encoding: 'JSON',
  });
  const time = new Date(FIRST_MS + offsetMs(scenario, i)).toISOString().replace('.000Z', 'Z');
  return JSON.stringify({
    captureData: { endpointInput: side('INPUT', request), endpointOutput: side('OUTPUT', reply) },
    eventMetadata: { eventId: `event-${String(i).padStart(6, '0')}`, inferenceTime: time },
    eventVersion: '0',
  });
}

export const CAPTURES_FILE = '00-00-000-bench.jsonl';

/** Writes the captures. @returns their directory */
export function writeScenario(root: string, scenario: Scenario): string {
  const directory = join(root, scenario.name.replace(/\W+/g, '-'));
  mkdirSync(directory, { recursive: true });
  const random = new Random(1);
  const lines = Array.from({ length: scenario.requests }, (_, i) => line(scenario, i, random));
  writeFileSync(join(directory, CAPTURES_FILE), `${lines.join('\n')}\n`);
  return directory;
}
