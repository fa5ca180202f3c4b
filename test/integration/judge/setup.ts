/** Starts a stand-in judge on a free port, and creates judges that call it as a Lambda does. */
import type { BedrockRuntimeClient } from '@aws-sdk/client-bedrock-runtime';
import { createJudgeOver, type JudgeOptions } from '../../../src/judge/judge-capture.ts';
import { parseJudgeId } from '../../../src/judge/judge-id.ts';
import { propertiesOf } from '../../../src/judge/models/model-properties.ts';
import { answerBounds, readParameters } from '../../../src/judge/parameters.ts';
import { applicability } from '../../../src/judge/scorers/applicability.ts';
import { defaultJudgeScorers } from '../../../src/judge/scorers/scorer-set.ts';
import { bedrockTransport, createBedrockClient } from '../../../src/judge/transports/bedrock.ts';
import type { Judge, JudgeResult, JudgeScorer } from '../../../src/judge/types.ts';
import type { BehaviorInput } from '../../doubles/faulty-judge/behavior.ts';
import { type RecordedCall, type StandInJudge, startStandInJudge } from '../../doubles/faulty-judge/server.ts';
import { chatCapture } from '../../unit/judge/captures.ts';

export const MODEL = 'global.anthropic.claude-sonnet-4-6';
export const credentials = { accessKeyId: 'AKIAIOSFODNN7EXAMPLE', secretAccessKey: 'example' };

/** Scorers that apply to a chat with a text reply. */
export const CHAT_SCORERS: readonly JudgeScorer[] = defaultJudgeScorers.filter(
  (scorer) => 'judge' in applicability(chatCapture(), scorer),
);

/** 3 and 15 dollars per million tokens, and a tenth for cached input. */
export const price = (usage: {
  inputTokens: number;
  outputTokens: number;
  cacheReadInputTokens?: number;
  cacheWriteInputTokens?: number;
}): number =>
  (usage.inputTokens * 3 +
    usage.outputTokens * 15 +
    (usage.cacheReadInputTokens ?? 0) * 0.3 +
    (usage.cacheWriteInputTokens ?? 0) * 3.75) /
  1e6;

/** Short waits, so that tests of retries are fast. */
export const QUICK_RETRY = { baseMs: 2, capMs: 20 };

interface RigConfig extends JudgeOptions {
  model?: string;
  parameters?: Record<string, unknown>;
  client?: BedrockRuntimeClient;
}

export interface Rig {
  standIn: StandInJudge;
  client: BedrockRuntimeClient;
  judge(config?: RigConfig): Judge;
  /** Resets the stand-in to this behavior. */
  behave(behavior?: BehaviorInput): void;
}

export function useStandIn(): Rig {
  const rig = {} as Rig;
  beforeAll(async () => {
    rig.standIn = await startStandInJudge({ keepCalls: 5000 });
    rig.client = createBedrockClient({ endpoint: rig.standIn.url, region: 'us-east-1', credentials });
  });
  afterAll(async () => {
    rig.client.destroy();
    await rig.standIn.close();
  });
  beforeEach(() => rig.behave());
  rig.judge = ({ model = MODEL, parameters: given, client = rig.client, ...options } = {}) => {
    const parameters = readParameters(given, [model]);
    const all = { properties: propertiesOf(model), price, retry: QUICK_RETRY, ...answerBounds(parameters), ...options };
    return createJudgeOver(bedrockTransport(parseJudgeId(model).name, parameters, client), all);
  };
  rig.behave = (behavior = {}) => {
    rig.standIn.behave(behavior);
    rig.standIn.forget();
  };
  return rig;
}

/** The parts of a ConverseRequest that tests read. */
export interface ConverseRequestBody {
  system: { text?: string; cachePoint?: { type: string } }[];
  messages: { role: string; content: { text?: string; guardContent?: { text: { text: string } } }[] }[];
  inferenceConfig: Record<string, unknown>;
  outputConfig?: { textFormat: { type: string; structure: { jsonSchema: { name: string; schema: string } } } };
  toolConfig?: {
    tools: { toolSpec: { name: string; inputSchema: { json: object } } }[];
    toolChoice: { tool: { name: string } };
  };
  additionalModelRequestFields?: Record<string, unknown>;
  guardrailConfig?: { guardrailIdentifier: string; guardrailVersion: string };
}

export const requestOf = (call: RecordedCall | undefined): ConverseRequestBody => call?.body as ConverseRequestBody;
export const userTextOf = (call: RecordedCall | undefined): string =>
  (requestOf(call).messages[0]?.content ?? [])
    .map((block) => block.text ?? block.guardContent?.text.text ?? '')
    .join('\n');

/** Returns the value or error code by scorer. */
export const outcomesOf = ({ verdicts }: Pick<JudgeResult, 'verdicts'>): Record<string, unknown> =>
  Object.fromEntries(
    verdicts.map((verdict) => [verdict.scorer, verdict.outcome === 'verdict' ? verdict.value : verdict.error.code]),
  );

/** The verdicts of all scorers on the parcel chat. */
export const PARCEL_VERDICTS = {
  safety: 'yes',
  relevance_to_query: 'yes',
  fluency: 'yes',
  coherence: 'coherent',
  professional_tone: 'yes',
  follows_objective: 'yes',
  no_harmful_advice: 'yes',
  completeness: 'yes',
  refusal: 'no',
};
